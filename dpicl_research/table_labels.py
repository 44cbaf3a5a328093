"""Labels of table rows from private demonstrations, beside classifiers without language model.

For every seed and data set: noise is drawn once for each release, demonstrations are drawn from
what was released, and the language model answers queries by the likelihood of the labels. Beside
it stand no demonstrations, real ones (not private), and classifiers on the whole test set: the
majority class, logistic regression and naive Bayes without noise, and naive Bayes on the very
releases that demonstrations are drawn from. A small model follows its prior; so accuracy is given
too with the prompt's prior taken out, as ``poe-prior`` does it (Zhao et al. 2021).

The data is public. Noise is secret all the same, so a run cannot be repeated, only kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.prompts import CONTENT_FREE
from dpicl_rag.tabular.schema import Row, asked
from dpicl_research.comparison import Estimate
from dpicl_research.label_scores import Scorer, Subset, shares_right
from dpicl_research.report import LinesReport, Table, percent, side_by_side
from dpicl_research.run_folder import Results, going_on, read_lines, read_settings
from dpicl_research.table_arms import Arm, More, Settings, arms
from dpicl_research.table_releases import not_private, queries_of, released
from dpicl_research.table_tasks import TableTask
from dpicl_research.tasks import Item, Task, Template

Accuracy = tuple[float, float | None]
"""Share of rows labelled right, plain and with the prior taken out."""

_PRIOR = -1  # in place of a query's number: the content-free one
_SHOTS, _RESULTS = "shots.jsonl", "results.jsonl"
_HEADS = ("demonstrations", "epsilon", "k")


@dataclass(frozen=True, slots=True)
class Line:
    """Accuracy of an arm on a task: means over seeds, with standard errors (None of one seed).

    Attributes:
        task: Its name.
        arm: See `Arm`.
        accuracy: Share of rows labelled right.
        error: Of it.
        corrected: With the prompt's prior taken out; None without a language model.
        seeds: That are done.
    """

    task: str
    arm: Arm
    accuracy: float
    error: float | None
    corrected: float | None
    seeds: int


def run(
    model: LanguageModel,
    tasks: Sequence[TableTask],
    settings: Settings,
    folder: Path,
    on_progress: Progress | None = None,
) -> None:
    """Release, draw and answer what the folder does not have yet.

    Args:
        model: Answers.
        tasks: The data sets.
        settings: Of the run.
        folder: Where demonstrations and results are kept.
        on_progress: See `Progress`.

    Raises:
        ConfigurationError: The folder holds other settings, or another process is at it; the
            demonstrations do not fit the model's context.
    """
    places = [
        (task.name, seed, number)
        for seed in range(settings.seeds)
        for task in tasks
        for number in queries_of(task, settings, seed)
    ]
    known = {task.name: task for task in tasks}
    alone: dict[str, dict[str, float]] = {}  # of each task, the same for every seed
    with going_on(folder, settings.kept(folder), free="seeds"):
        releases = Results(folder / _SHOTS, "task", "seed")
        lines = read_lines(folder / _SHOTS)
        shots = {(line["task"], line["seed"]): line for line in lines}
        results = Results(folder / _RESULTS, "task", "seed", "query")
        missing = groupby(results.missing(places, on_progress), key=itemgetter(0, 1))
        for (name, seed), mine in missing:
            task = known[name]
            if (name, seed) not in shots:
                if name not in alone:
                    alone[name] = not_private(task)
                shots[name, seed] = released(task, settings, seed, alone[name])
                releases.add((name, seed), shots[name, seed])
            asker = _Asker(model, task, shots[name, seed]["shots"])
            fresh = shots[name, seed].get("fresh", {})
            prior = (name, seed, _PRIOR)
            if prior not in results.done:
                results.add(prior, {"right": None, "scores": asker.scores(None)})
            for place in mine:
                right, row = int(task.right[place[-1]]), task.test[place[-1]]
                scores = asker.scores(row)
                if not (own := fresh.get(str(place[-1]))):
                    results.add(place, {"right": right, "scores": scores})
                    continue
                # Each query has a prompt of its own, and so a prior of its own.
                scores |= asker.scores_of(own, row)
                priors = asker.scores_of(own, None)
                results.add(place, {"right": right, "scores": scores, "priors": priors})


class TabularReport(LinesReport[Line]):
    """See `LinesReport`."""

    def tables(self) -> list[Table]:
        """A table for each data set."""
        columns = (*_HEADS, "accuracy", "prior taken out")
        found = []
        for name in dict.fromkeys(line.task for line in self.lines):
            own = [line for line in self.lines if line.task == name]
            rows = tuple((*_head(line.arm), shown_accuracy(line), _corrected(line)) for line in own)
            found.append(Table(f"{name}: {self._asked_of(own)}", columns, rows))
        return found

    def overview(self) -> Table:
        """All data sets side by side: accuracy, and behind a stroke with the prior taken out."""
        cells = []
        for line in self.lines:
            said, more = shown_accuracy(line), _corrected(line)
            cells.append((_head(line.arm), line.task, f"{said} / {more}" if more else said))
        columns = {line.task: line.task for line in self.lines}
        return side_by_side(self._asked_of(self.lines), _HEADS, columns, cells)

    def _asked_of(self, lines: Sequence[Line]) -> str:
        seeds = min((line.seeds for line in lines), default=0)
        return (
            f"accuracy in percent, {seeds} of {self.settings['seeds']} seeds x "
            f"{self.settings['queries']} queries; without k no language model, and the whole test "
            "set"
        )


def read_report(folder: Path) -> TabularReport:
    """The report of a run, finished or not.

    Raises:
        ConfigurationError: The folder holds none, or a damaged one.
    """
    settings = read_settings(folder)
    shares = accuracies(folder)
    found: list[Line] = []
    for task in settings["tasks"]:
        for arm in arms_of(settings):
            if by_seed := shares.get((task, arm.key)):
                own = list(by_seed.values())
                mean = Estimate.of([plain for plain, _ in own])
                known = [corrected for _, corrected in own if corrected is not None]
                corrected = fmean(known) if known else None
                found.append(Line(task, arm, mean.mean, mean.error, corrected, len(own)))
    return TabularReport(settings, found)


def arms_of(settings: Mapping[str, Any]) -> list[Arm]:
    """All lines of a run, from its settings as the folder has them."""
    return arms(settings["epsilons"], settings["ks"], More.read(settings.get("more", {})))


def accuracies(folder: Path) -> dict[tuple[str, str], dict[int, Accuracy]]:
    """Accuracies of each task and key of an arm, by seed.

    Raises:
        ConfigurationError: A line of the folder is damaged.
    """
    shares: dict[tuple[str, str], dict[int, Accuracy]] = defaultdict(dict)
    for line in read_lines(folder / _SHOTS):
        for key, accuracy in line["alone"].items():
            shares[line["task"], key][line["seed"]] = (accuracy, None)
    answers: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for line in read_lines(folder / _RESULTS):
        answers[line["task"], line["seed"]].append(line)
    for (task, seed), lines in answers.items():
        for key, pair in _accuracies(lines):
            shares[task, key][seed] = pair
    return shares


class _Asker:
    """Prompts of one task and seed: all arms' rows are read side by side.

    Args:
        model: Answers.
        task: The data set.
        shots: Texts and labels of each arm, by its key.
    """

    def __init__(
        self, model: LanguageModel, task: TableTask, shots: Mapping[str, Sequence[Sequence[str]]]
    ) -> None:
        labels = task.schema.label.values
        template = Template(f"Answer {' or '.join(labels)}.\n\n", "Row:", "Answer:")
        texts = [asked(row, task.schema) for row in task.test]
        longest = 2 * max(len(model.tokenizer.encode(text)) for text in texts[:100])
        self._scorer = Scorer(model, Task(task.name, template, labels, (), ()), longest)
        self._schema = task.schema
        self._items, self._subsets = _items_of(shots)
        self._scorer.check(self._items, self._subsets.values())
        self._any = Item("", labels[0], labels[0])

    def scores(self, row: Row | None) -> dict[str, list[float]]:
        """Log-probabilities of the labels for each arm; of no row for the prior."""
        return self._scored(self._items, self._subsets, row)

    def scores_of(
        self, shots: Mapping[str, Sequence[Sequence[str]]], row: Row | None
    ) -> dict[str, list[float]]:
        """The same for demonstrations of this row alone."""
        items, subsets = _items_of(shots)
        self._scorer.check(items, subsets.values())
        return self._scored(items, subsets, row)

    def _scored(
        self, items: Sequence[Item], subsets: Mapping[str, Subset], row: Row | None
    ) -> dict[str, list[float]]:
        text = CONTENT_FREE if row is None else asked(row, self._schema)
        wanted = sorted(set(subsets.values()))
        choice = self._scorer.choice(self._any)
        found = self._scorer.score(items, text, choice, wanted)
        return {
            key: [round(score, 6) for score in found[subset]] for key, subset in subsets.items()
        }


def _items_of(
    shots: Mapping[str, Sequence[Sequence[str]]],
) -> tuple[list[Item], dict[str, Subset]]:
    """Demonstrations of all arms in a row, and which of them are each one's."""
    items: list[Item] = []
    subsets: dict[str, Subset] = {}
    for key, own in shots.items():
        begin = len(items)
        items += [Item(text, label, label) for text, label in own]
        subsets[key] = tuple(range(begin, len(items)))
    return items, subsets


def _accuracies(lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Of each arm in one task and seed: plain, and with the prior taken out."""
    prior = next((line["scores"] for line in lines if line["query"] == _PRIOR), None)
    queries = [line for line in lines if line["query"] != _PRIOR]
    if prior is None or not queries:
        return
    for key, before in prior.items():
        said = [(line["scores"][key], line["right"]) for line in queries]
        yield key, shares_right(said, before)
    for key in queries[0].get("priors", ()):
        # Each less the prior of its own prompt.
        said = [(line["scores"][key], line["right"]) for line in queries]
        less = [
            ([p - q for p, q in zip(line["scores"][key], line["priors"][key], strict=True)], right)
            for line, (_, right) in zip(queries, said, strict=True)
        ]
        nothing = [0.0] * len(said[0][0])
        yield key, (shares_right(said, nothing)[0], shares_right(less, nothing)[0])


def shown_accuracy(line: Line) -> str:
    """In percent, with its standard error."""
    return percent(line.accuracy, line.error or None, digits=0)


def _corrected(line: Line) -> str:
    return "" if line.corrected is None else f"{100 * line.corrected:.0f}"


def _head(arm: Arm) -> tuple[str, str, str]:
    epsilon = "" if arm.epsilon is None else f"{arm.epsilon:g}"
    return arm.method, epsilon, "" if arm.k is None else str(arm.k)
