"""Few-shot accuracy from synthetic examples, beside the same prompts with other examples.

For every seed some labels are drawn, each gets one text, and queries are labelled with these texts
as shots. Rows to compare with: no shots at all, real shots (not private), and shots that the model
wrote without any data (epsilon 0). A small model follows the labels in its prompt; so accuracy is
given too with the prompt's prior taken out, as ``poe-prior`` does it (Zhao et al. 2021).

The data is public. Coins of texts are secret all the same, so a run cannot be repeated, only kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.prompts import CONTENT_FREE
from dpicl_rag.research.comparison import Estimate
from dpicl_rag.research.label_scores import Scorer, shares_right
from dpicl_rag.research.paper_protocol import context_of, data_digest, queries_of, shuffled
from dpicl_rag.research.report import LinesReport, Table, percent
from dpicl_rag.research.run_folder import Results, going_on, read_lines, read_settings
from dpicl_rag.research.tasks import Item, Task
from dpicl_rag.synthesis.example_template import ExampleTemplate
from dpicl_rag.synthesis.examples import synthesise_examples
from dpicl_rag.synthesis.examples_plan import METHODS, ExamplesMethod
from dpicl_rag.synthesis.pools import LabelledDocument
from dpicl_rag.synthesis.synthesis_folder import read_run

ALL = ":all"
"""After a method's name: all units are read, none are sampled."""

COMPARED = ("zero-shot", "real", "data-free")
"""Rows to compare with. The second one is not private."""

_TEMPLATES = {
    "agnews": ("Given a label of news type, write news of this type.", "News Type:"),
    "dbpedia": ("Given a label of document type, write a document of this type.", "Document Type:"),
    "trec": ("Given a label of answer type, write a question with such an answer.", "Answer Type:"),
}

_POOLS = {"agnews": 1250, "dbpedia": 357, "trec": 1200}
"""Examples of a label that a rate is fixed for: about what the benchmark data has."""

_RESULTS = "results.jsonl"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that the results of a run depend on.

    Attributes:
        task: Name of the task.
        data: Digest of its items.
        model: Fingerprint of the model.
        seeds: How many sets of shots and queries.
        shots: Labels that get a text, for each seed.
        queries: For each seed.
        delta: Of every synthesis.
        max_tokens: Most tokens of a text.
        experts: Experts of a token that are expected.
        rate: Public rate of samples.
        candidates: Of the methods that add noise.
        text_tokens: Texts in prompts are cut to this many tokens.
    """

    task: str
    data: str
    model: str
    seeds: int
    shots: int
    queries: int
    delta: float
    max_tokens: int
    experts: int
    rate: float
    candidates: int
    text_tokens: int


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of the table: a method at an epsilon, or one of ``COMPARED``."""

    name: str
    epsilon: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """Accuracy of an arm: means over seeds, with standard errors (None with one seed).

    Attributes:
        arm: Its name.
        epsilon: What was asked for; 0 without data, None where nothing is private.
        true_epsilon: What the noise gives.
        accuracy: Share of queries labelled right.
        error: Of it.
        corrected: With the prompt's prior taken out.
        corrected_error: Of it.
        seeds: That are done.
    """

    arm: str
    epsilon: float | None
    true_epsilon: float | None
    accuracy: float
    error: float | None
    corrected: float
    corrected_error: float | None
    seeds: int


def settings_for(task: Task, model: LanguageModel, rate: float | None, **given: Any) -> Settings:
    """Settings of a run; the rate of a known task is fixed.

    Raises:
        ConfigurationError: The task is a file and has no rate, or has no list of labels.
    """
    if not task.labels:
        raise ConfigurationError(f"{task.name}: synthetic shots need a task with a list of labels")
    if rate is None and task.name not in _POOLS:
        raise ConfigurationError("give the public --rate of samples; a task file has none")
    if given["shots"] > len(task.labels) or min(given["shots"], given["seeds"]) < 1:
        raise ConfigurationError("shots and seeds are 1 or more, and shots at most the labels")
    known = min(1.0, given["experts"] / _POOLS.get(task.name, 1)) if rate is None else rate
    digest = data_digest(task)
    return Settings(task.name, digest, model.fingerprint, rate=known, **given)


def arms(methods: Sequence[str], epsilons: Sequence[float]) -> list[Arm]:
    """All rows, those to compare with first.

    Raises:
        ConfigurationError: A method is unknown.
    """
    for name in methods:
        if name.removesuffix(ALL) not in METHODS or name == f"adaptive{ALL}":
            raise ConfigurationError(
                f"unknown method {name!r}: give one of {', '.join(METHODS)}; all but adaptive "
                f"also as NAME{ALL}, without samples"
            )
    return [*map(Arm, COMPARED), *(Arm(m, e) for m in methods for e in epsilons)]


def run(
    model: LanguageModel,
    task: Task,
    settings: Settings,
    rows: Sequence[Arm],
    folder: Path,
    on_progress: Progress | None = None,
) -> None:
    """Write and score what the folder does not have yet.

    Args:
        model: Writes and labels.
        task: The task.
        settings: Of the run.
        rows: What is compared.
        folder: Where texts and results are kept.
        on_progress: Called with sets of shots that are done, in fractions of texts, and with all.

    Raises:
        ConfigurationError: The folder holds other settings, or another process is at it; a number
            is outside its range.
    """
    scorer = Scorer(model, task, settings.text_tokens)
    places = [(arm.name, arm.epsilon, n) for n in range(settings.seeds) for arm in rows]
    with going_on(folder, asdict(settings), free="seeds"):
        results = Results(folder / _RESULTS, "arm", "epsilon", "seed")
        for name, epsilon, seed in results.missing(places, on_progress):

            def tell(done: float, texts: float | None) -> None:
                if on_progress is not None:
                    on_progress(results.reached + done / (texts or 1), len(places))

            shots, cost = _shots(model, task, settings, Arm(name, epsilon), seed, folder, tell)
            found = _accuracy(scorer, shots, queries_of(task, seed, settings.queries, "accuracy"))
            results.add((name, epsilon, seed), {"true_epsilon": cost, **found})


class SyntheticReport(LinesReport[Line]):
    """See `LinesReport`."""

    def tables(self) -> list[Table]:
        """See `Report`."""
        rows = tuple(
            (
                line.arm,
                "" if line.epsilon is None else f"{line.epsilon:g}",
                "not private" if line.true_epsilon is None else f"{line.true_epsilon:.2f}",
                percent(line.accuracy, line.error),
                percent(line.corrected, line.corrected_error),
            )
            for line in self.lines
        )
        columns = ("shots", "epsilon", "true epsilon", "accuracy", "prior taken out")
        seeds, run = max((line.seeds for line in self.lines), default=0), self.settings
        title = (
            f"{run['task']}: accuracy in percent with {run['shots']} shots, {seeds} of "
            f"{run['seeds']} seeds x {run['queries']} queries, delta {run['delta']:g}"
        )
        return [Table(title, columns, rows)]


def read_report(folder: Path) -> SyntheticReport:
    """The report of a run, finished or not.

    Raises:
        ConfigurationError: The folder holds none, or a damaged one.
    """
    settings = read_settings(folder)
    found: dict[tuple[str, float | None], list[dict[str, Any]]] = {}
    for line in read_lines(folder / _RESULTS):
        found.setdefault((line["arm"], line["epsilon"]), []).append(line)
    return SyntheticReport(settings, [_line(*arm, lines) for arm, lines in found.items()])


def _shots(
    model: LanguageModel,
    task: Task,
    settings: Settings,
    arm: Arm,
    seed: int,
    folder: Path,
    tell: Progress,
) -> tuple[tuple[Item, ...], float | None]:
    """The shots of a seed, and what they cost."""
    labels = tuple(task.labels[i] for i in shuffled(f"{seed}/shots", len(task.labels)))
    labels = labels[: settings.shots]
    if arm.name == "zero-shot":
        return (), None
    if arm.name == "real":
        pool = context_of(task, seed, len(task.pool))
        return tuple(next(i for i in pool if i.answer == label) for label in labels), None
    private = arm.epsilon is not None
    name = arm.name.removesuffix(ALL) if private else "exponential"
    instruction, word = _TEMPLATES.get(task.name, (ExampleTemplate().instruction, "Label:"))
    own = folder / "texts" / f"{arm.name.replace(':', '-')}-{arm.epsilon or 0:g}-{seed}"

    written = synthesise_examples(
        [LabelledDocument(i.text, i.answer) for i in task.pool] if private else [],
        labels,
        method=cast("ExamplesMethod", name),
        epsilon=arm.epsilon or 1.0,  # of no data, nothing is reported
        delta=settings.delta,
        max_tokens=settings.max_tokens,
        experts=settings.experts,
        rate=None if arm.name.endswith(ALL) else settings.rate,
        candidates=settings.candidates,
        template=ExampleTemplate(instruction, word),
        unit_tokens=settings.text_tokens,
        model=model,
        folder=own,
        on_progress=tell,
    )
    shots = tuple(
        Item(record.text, record.label, record.label)
        for record in written.records
        if record.text and record.label
    )
    return shots, read_run(own).charges["epsilon"] if private else 0.0


def _accuracy(scorer: Scorer, shots: Sequence[Item], queries: Sequence[Item]) -> dict[str, float]:
    """Share of queries labelled right, as they are and with the prompt's prior taken out."""
    whole = tuple(range(len(shots)))
    prior = scorer.score(shots, CONTENT_FREE, scorer.choice(queries[0]), [whole])[whole]
    said = []
    for query in queries:
        choice = scorer.choice(query)
        row = scorer.score(shots, query.text, choice, [whole])[whole]
        said.append((row, choice.right))
    return dict(zip(("accuracy", "corrected"), shares_right(said, prior), strict=True))


def _line(arm: str, epsilon: float | None, lines: Sequence[dict[str, Any]]) -> Line:
    accuracy, corrected = (
        Estimate.of([line[name] for line in lines]) for name in ("accuracy", "corrected")
    )
    return Line(
        arm=arm,
        epsilon=0.0 if arm == "data-free" else epsilon,
        true_epsilon=lines[0]["true_epsilon"],
        accuracy=accuracy.mean,
        error=accuracy.error,
        corrected=corrected.mean,
        corrected_error=corrected.error,
        seeds=len(lines),
    )
