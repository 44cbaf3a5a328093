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

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.prompts import CONTENT_FREE
from dpicl_rag.research.comparison import Estimate
from dpicl_rag.research.label_scores import Scorer, shares_right
from dpicl_rag.research.logistic_regression import logistic_regression
from dpicl_rag.research.paper_protocol import shuffled
from dpicl_rag.research.report import LinesReport, Table, percent, side_by_side
from dpicl_rag.research.run_folder import Results, going_on, read_lines, read_settings
from dpicl_rag.research.table_tasks import TableTask
from dpicl_rag.research.tasks import Item, Task, Template
from dpicl_rag.tabular.aggregates import release_aggregates
from dpicl_rag.tabular.local_privacy import bits_from_reports, local_report, tables_from_reports
from dpicl_rag.tabular.noisy_tables import NoisyTables, noiseless, release_tables
from dpicl_rag.tabular.schema import Row, Schema
from dpicl_rag.tabular.serialise import answer, asked

BITS, ONE, AGGREGATES, TABLES = "local bits", "local one-attribute", "aggregates", "tables"
METHODS = (BITS, ONE, AGGREGATES, TABLES)
"""Private demonstrations."""

_PRIOR = -1  # in place of a query's number: the content-free one
_SHOTS, _RESULTS = "shots.jsonl", "results.jsonl"
_HEADS = ("demonstrations", "epsilon", "k")


@dataclass(frozen=True, slots=True)
class Arm:
    """One line of the results.

    Attributes:
        method: What gives the demonstrations, or which classifier.
        epsilon: None where nothing is private.
        k: How many demonstrations; None without a language model.
    """

    method: str
    epsilon: float | None = None
    k: int | None = None

    @property
    def key(self) -> str:
        """Names it in files."""
        return json.dumps([self.method, self.epsilon, self.k])


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that the results of a run depend on. More tasks and more seeds go on with a run.

    Attributes:
        model: Fingerprint.
        epsilons: Of releases and reports.
        ks: Numbers of demonstrations.
        queries: Of a seed and a task.
        seeds: How many.
        tasks: Digests by name.
    """

    model: str
    epsilons: tuple[float, ...]
    ks: tuple[int, ...]
    queries: int
    seeds: int
    tasks: Mapping[str, str]


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


def arms(epsilons: Sequence[float], ks: Sequence[int]) -> list[Arm]:
    """All lines: classifiers, then what the language model answers with.

    Raises:
        ConfigurationError: A number of demonstrations is no power of two.
    """
    if any(k < 1 or k & (k - 1) for k in ks):
        raise ConfigurationError("numbers of demonstrations are powers of two: groups are halved")
    alone = [Arm("majority class"), Arm("logistic regression"), Arm("naive Bayes")]
    for epsilon in epsilons:
        alone += [Arm(f"naive Bayes, {ONE}", epsilon), Arm(f"naive Bayes, {TABLES}", epsilon)]
    shown = [Arm("zero-shot", None, 0), *(Arm("real", None, k) for k in ks)]
    shown += [Arm(method, epsilon, k) for method in METHODS for epsilon in epsilons for k in ks]
    return alone + shown


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
        for number in shuffled(f"{seed}/queries", len(task.test))[: settings.queries]
    ]
    known = {task.name: task for task in tasks}
    alone: dict[str, dict[str, float]] = {}  # of each task, the same for every seed
    with going_on(folder, asdict(settings), free="seeds"):
        releases = Results(folder / _SHOTS, "task", "seed")
        lines = read_lines(folder / _SHOTS)
        shots = {(line["task"], line["seed"]): line["shots"] for line in lines}
        results = Results(folder / _RESULTS, "task", "seed", "query")
        missing = groupby(results.missing(places, on_progress), key=itemgetter(0, 1))
        for (name, seed), mine in missing:
            task = known[name]
            if (name, seed) not in shots:
                if name not in alone:
                    alone[name] = _not_private(task)
                made = _released(task, settings, seed, alone[name])
                releases.add((name, seed), made)
                shots[name, seed] = made["shots"]
            asker = _Asker(model, task, shots[name, seed])
            prior = (name, seed, _PRIOR)
            if prior not in results.done:
                results.add(prior, {"right": None, "scores": asker.scores(None)})
            for place in mine:
                right, row = int(task.right[place[-1]]), task.test[place[-1]]
                results.add(place, {"right": right, "scores": asker.scores(row)})


class TabularReport(LinesReport[Line]):
    """See `LinesReport`."""

    def tables(self) -> list[Table]:
        """A table for each data set."""
        columns = (*_HEADS, "accuracy", "prior taken out")
        found = []
        for name in dict.fromkeys(line.task for line in self.lines):
            own = [line for line in self.lines if line.task == name]
            rows = tuple((*_head(line.arm), _accuracy(line), _corrected(line)) for line in own)
            found.append(Table(f"{name}: {self._asked_of(own)}", columns, rows))
        return found

    def overview(self) -> Table:
        """All data sets side by side: accuracy, and behind a stroke with the prior taken out."""
        cells = []
        for line in self.lines:
            said, more = _accuracy(line), _corrected(line)
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
    shares: dict[tuple[str, str], list[tuple[float, float | None]]] = defaultdict(list)
    for line in read_lines(folder / _SHOTS):
        for key, accuracy in line["alone"].items():
            shares[line["task"], key].append((accuracy, None))
    answers: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for line in read_lines(folder / _RESULTS):
        answers[line["task"], line["seed"]].append(line)
    for (task, _), lines in answers.items():
        for key, pair in _accuracies(lines):
            shares[task, key].append(pair)
    found: list[Line] = []
    for task in settings["tasks"]:
        for arm in arms(settings["epsilons"], settings["ks"]):
            if own := shares.get((task, arm.key)):
                mean = Estimate.of([plain for plain, _ in own])
                known = [corrected for _, corrected in own if corrected is not None]
                corrected = fmean(known) if known else None
                found.append(Line(task, arm, mean.mean, mean.error, corrected, len(own)))
    return TabularReport(settings, found)


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
        self._items: list[Item] = []
        self._subsets: dict[str, tuple[int, ...]] = {}
        for key, own in shots.items():
            begin = len(self._items)
            self._items += [Item(text, label, label) for text, label in own]
            self._subsets[key] = tuple(range(begin, len(self._items)))
            self._scorer.check(self._items, [self._subsets[key]])
        self._any = Item("", labels[0], labels[0])

    def scores(self, row: Row | None) -> dict[str, list[float]]:
        """Log-probabilities of the labels for each arm; of no row for the prior."""
        text = CONTENT_FREE if row is None else asked(row, self._schema)
        wanted = sorted(set(self._subsets.values()))
        choice = self._scorer.choice(self._any)
        found = self._scorer.score(self._items, text, choice, wanted)
        return {
            key: [round(score, 6) for score in found[subset]]
            for key, subset in self._subsets.items()
        }


def _not_private(task: TableTask) -> dict[str, float]:
    """Accuracies of the classifiers without noise, by the keys of their arms."""
    most = np.bincount([task.schema.encode(row).label or 0 for row in task.train]).argmax()
    found = {
        "majority class": np.full(len(task.test), most),
        "logistic regression": logistic_regression(task),
        "naive Bayes": noiseless(task.train, task.schema).naive_bayes().best(task.places),
    }
    return {Arm(name).key: _share_right(task, labels) for name, labels in found.items()}


def _share_right(task: TableTask, labels: npt.NDArray[np.int64]) -> float:
    return float(np.mean(labels == task.right))


def _released(
    task: TableTask, settings: Settings, seed: int, not_private: Mapping[str, float]
) -> dict[str, Any]:
    """All releases of a seed: demonstrations, and accuracies without a language model."""
    schema = task.schema
    alone = dict(not_private)
    shots: dict[str, list[tuple[str, str]]] = {Arm("zero-shot", None, 0).key: []}

    def bayes(method: str, epsilon: float, released: NoisyTables) -> None:
        labels = released.naive_bayes().best(task.places)
        alone[Arm(method, epsilon).key] = _share_right(task, labels)

    def show(method: str, epsilon: float | None, rows: Sequence[Row]) -> None:
        arm = Arm(method, epsilon, len(rows))
        shots[arm.key] = [(asked(row, schema), answer(row, schema)) for row in rows]

    order = shuffled(f"{seed}/real", len(task.train))
    for k in settings.ks:
        show("real", None, [task.train[at] for at in order[:k]])
    for epsilon in settings.epsilons:
        tabled = release_tables(task.train, schema, epsilon)
        sent = (local_report(row, schema, epsilon) for row in task.train)
        local = tables_from_reports(sent, schema, epsilon)
        bits = bits_from_reports(
            (local_report(row, schema, epsilon, method="bits") for row in task.train),
            schema,
            epsilon,
        )
        bayes(f"naive Bayes, {TABLES}", epsilon, tabled)
        bayes(f"naive Bayes, {ONE}", epsilon, local)
        for k in settings.ks:
            show(TABLES, epsilon, tabled.rows(k))
            show(ONE, epsilon, local.rows(k))
            show(BITS, epsilon, bits.rows(k))
            grouped = release_aggregates(task.train, schema, epsilon, _group_by(schema, k))
            show(AGGREGATES, epsilon, grouped.rows)
    return {"alone": alone, "shots": shots}


def _group_by(schema: Schema, k: int) -> tuple[str, ...]:
    """Public names that make k groups: none, the label, then columns."""
    more = k.bit_length() - 2
    names = schema.group_by or tuple(column.name for column in schema.columns)
    if more > len(names) or (k > 1 and len(schema.label.values) != 2):
        raise ConfigurationError(
            f"{k} groups need a label of two answers and {max(more, 0)} columns in group_by"
        )
    return () if k == 1 else (schema.label.name, *names[:more])


def _accuracies(lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Of each arm in one task and seed: plain, and with the prior taken out."""
    prior = next((line["scores"] for line in lines if line["query"] == _PRIOR), None)
    queries = [line for line in lines if line["query"] != _PRIOR]
    if prior is None or not queries:
        return
    for key, before in prior.items():
        said = [(line["scores"][key], line["right"]) for line in queries]
        yield key, shares_right(said, before)


def _accuracy(line: Line) -> str:
    return percent(line.accuracy, line.error or None, digits=0)


def _corrected(line: Line) -> str:
    return "" if line.corrected is None else f"{100 * line.corrected:.0f}"


def _head(arm: Arm) -> tuple[str, str, str]:
    epsilon = "" if arm.epsilon is None else f"{arm.epsilon:g}"
    return arm.method, epsilon, "" if arm.k is None else str(arm.k)
