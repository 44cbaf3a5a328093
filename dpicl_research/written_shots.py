"""DP few-shot generation in the table of the methods that label (Tang et al., ICLR 2024).

A method of `dpicl_rag.synthesis` writes shots privately, and queries are labelled with them. It
stands beside methods that read private examples for every answer, on the same seeds and queries.
Three things differ, and lines say the first: its epsilon covers all answers together; it reads the
task's whole pool, not a context of a few examples; and its accuracy is that of shots that were
drawn, not an expectation over the noise. What it has to beat stands beside it: shots that were made
up without data (epsilon 0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpicl_rag.accounting import Adjacency, Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.synthesis.examples_plan import METHODS
from dpicl_research import synthetic_examples
from dpicl_research.comparison import Line
from dpicl_research.scores_folder import Run
from dpicl_research.synthetic_report import Line as ShotsLine
from dpicl_research.synthetic_report import read_report
from dpicl_research.synthetic_shots import ALL, Arm, arms
from dpicl_research.tasks import Task

FOLDER = "shots"
"""Where they are kept, in the folder of a run of `evaluate run`."""

_BESIDE = ("real", "data-free")
_SAME = ("task", "data", "model", "queries", "text_tokens")


@dataclass(frozen=True, slots=True)
class Shots:
    """How shots are written; all of it public.

    Attributes:
        shots: Labels that get a text, for each seed.
        max_tokens: Most tokens of a text.
        experts: Experts of a token that are expected.
        rate: Public rate of samples; that of a known task where it is None.
        candidates: Of the methods that add noise.
    """

    shots: int = 4
    max_tokens: int = 40
    experts: int = 20
    rate: float | None = None
    candidates: int = 100


def is_writer(name: str) -> bool:
    """Whether a name is that of a method that writes shots, with or without ``:all``."""
    return name.removesuffix(ALL) in METHODS


def write(
    model: LanguageModel,
    task: Task,
    writers: Sequence[str],
    settings: Shots,
    folder: Path,
    *,
    budget: Budget,
    seeds: int,
    queries: int,
    text_tokens: int,
    on_progress: Progress | None = None,
) -> None:
    """Write and score the shots of every seed that the run's folder does not have yet.

    Args:
        model: That of the run.
        task: That of the run.
        writers: Names; see `is_writer`.
        settings: How shots are written.
        folder: Of the run.
        budget: Of all answers together. Its adjacency must be ``ADD_OR_REMOVE_ONE``.
        seeds: Those of the run.
        queries: Those of the run.
        text_tokens: Those of the run.
        on_progress: See `synthetic_examples.run`.

    Raises:
        ConfigurationError: A writer is unknown, the task has no list of labels or no rate, or the
            folder holds shots with other settings.
    """
    rows = arms(writers, [budget.epsilon])
    found = synthetic_examples.settings_for(
        task,
        model,
        settings.rate,
        seeds=seeds,
        shots=settings.shots,
        queries=queries,
        delta=budget.delta,
        max_tokens=settings.max_tokens,
        experts=settings.experts,
        candidates=settings.candidates,
        text_tokens=text_tokens,
    )
    wanted = [row for row in rows if row.epsilon is not None or row.name in _BESIDE]
    synthetic_examples.run(model, task, found, wanted, folder / FOLDER, on_progress)


def written_lines(folder: Path, run: Run, writers: Sequence[str], budget: Budget) -> list[Line]:
    """Lines of written shots at a budget, for each number of experts of the run.

    They do not depend on that number: it is that of the lines they stand beside. Where the folder
    has no shots at this budget a line says so in its note.

    Args:
        folder: Of the run.
        run: What stands in it.
        writers: Names of the methods that wrote.
        budget: What the others get; for one answer or for several.

    Raises:
        ConfigurationError: The shots are not those of this run, or damaged.
    """
    report = read_report(folder / FOLDER)
    for name in _SAME:
        if report.settings[name] != getattr(run.settings, name):
            raise ConfigurationError(f"{folder / FOLDER}: shots of another run ({name})")
    known = {Arm(line.arm, line.epsilon): line for line in report.lines}
    wanted = [Arm("real"), Arm("data-free", 0.0), *(Arm(name, budget.epsilon) for name in writers)]
    reason = _unfit(budget, float(report.settings["delta"]))
    lines: list[Line] = []
    for arm in wanted:
        found = known.get(arm)
        note = reason if arm.epsilon else ""
        if not note and (found is None or found.seeds < run.settings.seeds):
            note = "not in this run: run it again with this method and epsilon"
        for experts in run.settings.experts:
            lines += [_missing(arm, experts, note)] if note else _of(found, experts)
    return lines


def _unfit(budget: Budget, delta: float) -> str:
    if budget.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
        return "its shots were written for an example that is added or removed"
    return "" if budget.delta == delta else f"its shots were written at delta {delta:g}"


def _missing(arm: Arm, experts: int, note: str) -> Line:
    return Line(_name(arm.name), experts, arm.epsilon, None, None, None, note)


def _of(found: ShotsLine | None, experts: int) -> Iterator[Line]:
    """As it is, and with the prompt's prior taken out."""
    if found is None:
        return
    for more, accuracy, error in (
        ("", found.accuracy, found.error),
        (", prior out", found.corrected, found.corrected_error),
    ):
        name = _name(found.arm, more)
        yield Line(name, experts, found.epsilon, found.true_epsilon, accuracy, error)


def _name(arm: str, more: str = "") -> str:
    paid = "" if arm in _BESIDE else ", once for all answers"
    return f"{arm}{' shots' if arm in _BESIDE else ''}{more}{paid}"
