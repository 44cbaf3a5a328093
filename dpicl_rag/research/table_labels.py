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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.run_files import alone_in, cut_tail, whole_lines, write_line, write_whole
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.prompts import CONTENT_FREE
from dpicl_rag.research.comparison import Estimate
from dpicl_rag.research.label_scores import Scorer
from dpicl_rag.research.logistic_regression import logistic_regression
from dpicl_rag.research.paper_protocol import shuffled
from dpicl_rag.research.run_tables import Table, percent
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

Progress = Callable[[int, int], None]
"""Called with the number of queries that are done, and of all."""


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
    with alone_in(folder, "another evaluation is running there"):
        _settle(folder, settings)
        shots, results = folder / "shots.jsonl", folder / "results.jsonl"
        for file in (shots, results):
            cut_tail(file, whole_lines(file)[1])
        kept = {(line["task"], line["seed"]): line for line in _lines(shots)}
        done = {(line["task"], line["seed"], line["query"]) for line in _lines(results)}
        total = settings.seeds * sum(min(settings.queries, len(task.test)) for task in tasks)
        told = 0
        known: dict[str, dict[str, float]] = {}  # of each task, the same for every seed
        for seed in range(settings.seeds):
            for task in tasks:
                if (task.name, seed) not in kept:
                    if task.name not in known:
                        known[task.name] = _not_private(task)
                    made = _released(task, settings, seed, known[task.name])
                    drawn = {"task": task.name, "seed": seed, **made}
                    write_line(shots, drawn)
                    kept[task.name, seed] = drawn
                asker = _Asker(model, task, kept[task.name, seed]["shots"])
                numbers = shuffled(f"{seed}/queries", len(task.test))[: settings.queries]
                for at, number in enumerate((_PRIOR, *numbers), start=-1):
                    if on_progress is not None:
                        on_progress(told + max(at, 0), total)
                    if (task.name, seed, number) in done:
                        continue
                    found = asker.scores(None if number == _PRIOR else task.test[number])
                    right = None if number == _PRIOR else int(task.right[number])
                    head = {"task": task.name, "seed": seed, "query": number, "right": right}
                    write_line(results, {**head, "scores": found})
                told += len(numbers)
        if on_progress is not None:
            on_progress(total, total)


def read_results(folder: Path) -> tuple[dict[str, Any], list[Line]]:
    """Settings and lines of a run, finished or not.

    Raises:
        ConfigurationError: The folder holds none.
    """
    try:
        settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{folder}: holds no run of evaluate tabular") from error
    alone: dict[tuple[str, str], list[float]] = {}
    for line in _lines(folder / "shots.jsonl"):
        for key, accuracy in line["alone"].items():
            alone.setdefault((line["task"], key), []).append(accuracy)
    asked_: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in _lines(folder / "results.jsonl"):
        asked_.setdefault((line["task"], line["seed"]), []).append(line)
    answered: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (task, _), lines in asked_.items():
        for key, accuracy in _accuracies(lines):
            answered.setdefault((task, key), []).append(accuracy)
    found: list[Line] = []
    for task in settings["tasks"]:
        for arm in arms(settings["epsilons"], settings["ks"]):
            if own := alone.get((task, arm.key)):
                mean = Estimate.of(own)
                found.append(Line(task, arm, mean.mean, mean.error, None, len(own)))
            elif pairs := answered.get((task, arm.key)):
                plain, corrected = zip(*pairs, strict=True)
                mean = Estimate.of(plain)
                found.append(Line(task, arm, mean.mean, mean.error, fmean(corrected), len(pairs)))
    return settings, found


def tables(settings: Mapping[str, Any], lines: Sequence[Line]) -> list[Table]:
    """The lines as words, a table for each data set."""
    columns = ("demonstrations", "epsilon", "k", "accuracy", "prior taken out")
    found = []
    for name in dict.fromkeys(line.task for line in lines):
        own = [line for line in lines if line.task == name]
        rows = tuple((*_head(line.arm), _accuracy(line), _corrected(line)) for line in own)
        found.append(Table(f"{name}: {_asked_of(settings, own)}", columns, rows))
    return found


def overview(settings: Mapping[str, Any], lines: Sequence[Line]) -> Table:
    """All data sets side by side: accuracy, and behind a stroke with the prior taken out."""
    names = list(dict.fromkeys(line.task for line in lines))
    kept = {(line.task, line.arm): line for line in lines}
    rows = []
    for arm in dict.fromkeys(line.arm for line in lines):
        cells = []
        for name in names:
            line = kept.get((name, arm))
            said = "" if line is None else _accuracy(line)
            more = "" if line is None else _corrected(line)
            cells.append(f"{said} / {more}" if more else said)
        rows.append((*_head(arm), *cells))
    columns = ("demonstrations", "epsilon", "k", *names)
    return Table(_asked_of(settings, lines), columns, tuple(rows))


def summary(settings: Mapping[str, Any], lines: Sequence[Line]) -> dict[str, Any]:
    """The same for JSON."""
    return {**settings, "lines": [asdict(line) for line in lines]}


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
            self._scorer.check(self._items[begin:])
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
        plain = corrected = 0
        for line in queries:
            said = np.array(line["scores"][key])
            plain += int(said.argmax() == line["right"])
            corrected += int((said - np.array(before)).argmax() == line["right"])
        yield key, (plain / len(queries), corrected / len(queries))


def _settle(folder: Path, settings: Settings) -> None:
    file, wanted = folder / "settings.json", json.loads(json.dumps(asdict(settings)))
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        tasks = {**before.get("tasks", {}), **wanted["tasks"]}
        differing = [
            name
            for name, value in wanted.items()
            if name not in ("seeds", "tasks") and before.get(name) != value
        ]
        changed = [
            n for n in wanted["tasks"] if before.get("tasks", {}).get(n, tasks[n]) != tasks[n]
        ]
        if differing or changed:
            raise ConfigurationError(
                f"{folder}: holds a run with other settings ({', '.join([*differing, *changed])}); "
                "give another --out, or the same settings to go on with it"
            )
        wanted["tasks"] = tasks
    write_whole(file, (json.dumps(wanted, indent=2) + "\n").encode())


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in whole_lines(file)[0]]


def _accuracy(line: Line) -> str:
    return percent(line.accuracy, line.error or None, digits=0)


def _corrected(line: Line) -> str:
    return "" if line.corrected is None else f"{100 * line.corrected:.0f}"


def _head(arm: Arm) -> tuple[str, str, str]:
    epsilon = "" if arm.epsilon is None else f"{arm.epsilon:g}"
    return arm.method, epsilon, "" if arm.k is None else str(arm.k)


def _asked_of(settings: Mapping[str, Any], lines: Sequence[Line]) -> str:
    seeds = min((line.seeds for line in lines), default=0)
    return (
        f"accuracy in percent, {seeds} of {settings['seeds']} seeds x {settings['queries']} "
        "queries; without k no language model, and the whole test set"
    )
