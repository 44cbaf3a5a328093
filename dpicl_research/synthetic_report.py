"""Tables of few-shot accuracy from synthetic examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from dpicl_research.comparison import Estimate
from dpicl_research.report import LinesReport, Table, percent
from dpicl_research.run_folder import read_lines, read_settings

RESULTS = "results.jsonl"
"""File of a run's results, a line for each arm, epsilon and seed."""


@dataclass(frozen=True, slots=True)
class Line:
    """Accuracy of an arm: means over seeds, with standard errors (None with one seed).

    Attributes:
        arm: Its name.
        epsilon: What was asked for; 0 without data, None where nothing is private.
        true_epsilon: What the noise gives.
        accuracy: Share of queries labelled right.
        error: Of it.
        corrected: With the prompt's prior taken out; None where answers are extracted.
        corrected_error: Of it.
        seeds: That are done.
        seconds: To write the shots of a seed, in the mean over those written in one go; None where
            none were.
    """

    arm: str
    epsilon: float | None
    true_epsilon: float | None
    accuracy: float
    error: float | None
    corrected: float | None
    corrected_error: float | None
    seeds: int
    seconds: float | None = None


class SyntheticReport(LinesReport[Line]):
    """See `LinesReport`."""

    def tables(self) -> list[Table]:
        """See `Report`."""
        rows = tuple(
            (
                line.arm,
                "" if line.epsilon is None else f"{line.epsilon:g}",
                privacy(line.true_epsilon),
                percent(line.accuracy, line.error),
                "" if line.corrected is None else percent(line.corrected, line.corrected_error),
                "" if line.seconds is None else f"{line.seconds:.1f}",
            )
            for line in self.lines
        )
        columns = (
            *("shots", "epsilon", "true epsilon"),
            *("accuracy", "prior taken out", "seconds to write"),
        )
        seeds, run = max((line.seeds for line in self.lines), default=0), self.settings
        title = (
            f"{run['task']}: accuracy in percent with {run['shots']} shots, {seeds} of "
            f"{run['seeds']} seeds x {run['queries']} queries, delta {run['delta']:g}"
        )
        return [Table(title, columns, rows)]


def privacy(true_epsilon: float | None) -> str:
    """A true epsilon in words."""
    return "not private" if true_epsilon is None else f"{true_epsilon:.2f}"


def read_report(folder: Path) -> SyntheticReport:
    """The report of a run, finished or not.

    Raises:
        ConfigurationError: The folder holds none, or a damaged one.
    """
    settings = read_settings(folder)
    found = by_arm(read_lines(folder / RESULTS))
    return SyntheticReport(settings, [_line(*arm, lines) for arm, lines in found.items()])


def by_arm(lines: Iterable[dict[str, Any]]) -> dict[tuple[str, float | None], list[dict[str, Any]]]:
    """Lines of a run by arm and epsilon, in the order in which these came first."""
    found: dict[tuple[str, float | None], list[dict[str, Any]]] = {}
    for line in lines:
        found.setdefault((line["arm"], line["epsilon"]), []).append(line)
    return found


def _line(arm: str, epsilon: float | None, lines: Sequence[dict[str, Any]]) -> Line:
    accuracy = Estimate.of([line["accuracy"] for line in lines])
    known = [line["corrected"] for line in lines if line["corrected"] is not None]
    corrected = Estimate.of(known) if known else None
    timed = [line["seconds"] for line in lines if line.get("seconds") is not None]
    return Line(
        arm=arm,
        epsilon=0.0 if arm == "data-free" else epsilon,
        true_epsilon=lines[0]["true_epsilon"],
        accuracy=accuracy.mean,
        error=accuracy.error,
        corrected=None if corrected is None else corrected.mean,
        corrected_error=None if corrected is None else corrected.error,
        seeds=len(lines),
        seconds=fmean(timed) if timed else None,
    )
