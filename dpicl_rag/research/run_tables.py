"""The methods of a run side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpicl_rag.accounting import Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods.base import Method
from dpicl_rag.research.approximation import Approximation, approximations
from dpicl_rag.research.comparison import Line, compare, with_clip
from dpicl_rag.research.report import Report, Table, percent, side_by_side
from dpicl_rag.research.scores_folder import Run

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Budgets of the sweep."""

CLIPS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Clip bounds of the sweep, in nats."""


@dataclass(frozen=True, slots=True)
class EvaluationReport(Report):
    """Figures of one run.

    Attributes:
        run: What it is about.
        budget: What every private method got.
        lines: All methods at that budget, for each number of experts.
        by_epsilon: The same for the largest number of experts, at other budgets.
        by_clip: Methods with a clip bound, at other bounds, as pairs of bound and line.
        approximation: Soft against hard; empty where the run lacks the rows.
    """

    run: Run
    budget: Budget
    lines: tuple[Line, ...]
    by_epsilon: tuple[Line, ...] = ()
    by_clip: tuple[tuple[float, Line], ...] = ()
    approximation: tuple[Approximation, ...] = field(default=())

    def summary(self) -> dict[str, Any]:
        """See `Report`."""
        settings = dataclasses.asdict(self.run.settings)
        return {
            "task": settings["task"],
            "seeds": settings["seeds"],
            "queries": settings["queries"],
            "complete": self.run.complete,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "adjacency": str(self.budget.adjacency),
            "answers": self.budget.queries,
            "methods": [dataclasses.asdict(line) for line in self.lines],
            "by_epsilon": [dataclasses.asdict(line) for line in self.by_epsilon],
            "by_clip": [{"clip": c, **dataclasses.asdict(line)} for c, line in self.by_clip],
            "approximation": [dataclasses.asdict(a) for a in self.approximation],
        }

    def tables(self) -> list[Table]:
        """See `Report`."""
        found = [self._accuracy()]
        if self.by_epsilon:
            found.append(self._sweep("epsilon", [(e.epsilon, e) for e in self.by_epsilon]))
        if self.by_clip:
            found.append(self._sweep("clip", list(self.by_clip)))
        if self.approximation:
            found.append(self._soft_against_hard())
        return found

    def heading(self) -> str:
        """See `Report`."""
        settings, done = self.run.settings, len(self.run.records)
        wanted = settings.seeds * settings.queries
        amount = f"{settings.seeds} seeds x {settings.queries} queries"
        if done < wanted:
            amount += f", UNFINISHED: {done} of {wanted}"
        return f"{settings.task}: {amount}"

    def _accuracy(self) -> Table:
        experts = sorted({line.experts for line in self.lines})
        epsilons: dict[str, str] = {}
        cells = []
        for line in self.lines:
            epsilon = epsilons.setdefault(line.method, _epsilon(line))
            cells.append(((line.method, epsilon), line.experts, shown(line)))
        return side_by_side(
            f"Accuracy in percent, {self._terms()}",
            ("method", "true epsilon"),
            {n: f"{n} experts" for n in experts},
            cells,
        )

    def _sweep(self, name: str, lines: Sequence[tuple[float | None, Line]]) -> Table:
        known = [(value, line) for value, line in lines if value is not None]
        title = f"Accuracy in percent against {name}, {max(self.run.settings.experts)} experts"
        return side_by_side(
            title if name == "epsilon" else f"{title}, {self._terms()}",
            ("method",),
            {value: f"{value:g}" for value in sorted({value for value, _ in known})},
            [((line.method,), value, shown(line)) for value, line in known],
        )

    def _soft_against_hard(self) -> Table:
        rows = tuple(
            (a.predictor, *(_estimate(e) for e in (a.likelihood, a.change, a.distance)))
            for a in self.approximation
        )
        columns = ("predictor", "predictive likelihood", "largest change", "distance to k-shot")
        experts = self.approximation[0].experts
        return Table(f"Soft against hard in percent, {experts} experts, no noise", columns, rows)

    def _terms(self) -> str:
        budget = self.budget
        answers = "one answer" if budget.queries == 1 else f"{budget.queries} answers"
        adjacency = str(budget.adjacency).replace("_", " ")
        return f"epsilon {budget.epsilon:g}, delta {budget.delta:g} for {answers}, {adjacency}"


def build_report(
    run: Run,
    methods: Sequence[Method],
    budget: Budget,
    *,
    epsilons: Sequence[float] = EPSILONS,
    clips: Sequence[float] = CLIPS,
    others: Callable[[Budget], Sequence[Line]] | None = None,
) -> EvaluationReport:
    """Evaluate methods from the scores of a run.

    Args:
        run: With at least one record.
        methods: Which ones, in the order of the tables.
        budget: What every private method gets.
        epsilons: Budgets of the sweep; none leaves it out.
        clips: Clip bounds of the sweep; none leaves it out.
        others: Lines at a budget that do not come from scores, such as `written_lines`.

    Raises:
        ConfigurationError: The run has no record, or an epsilon or clip is outside its range.
    """
    if not run.records:
        raise ConfigurationError(f"{run.name}: the run has no scores yet")
    experts = run.settings.experts
    private = [method for method in methods if method.private]
    by_epsilon: list[Line] = []
    for epsilon in epsilons:
        at = dataclasses.replace(budget, epsilon=epsilon)
        by_epsilon += compare(run, private, experts[-1:], at)
        known = others(at) if others is not None else ()
        by_epsilon += [e for e in known if e.epsilon and not e.note and e.experts == experts[-1]]
    by_clip: list[tuple[float, Line]] = []
    for clip in clips:
        changed = [m for method in private if (m := with_clip(method, clip)) is not None]
        by_clip += [(clip, line) for line in compare(run, changed, experts[-1:], budget)]
    try:
        approximation = tuple(approximations(run, experts[-1]))
    except KeyError:
        approximation = ()
    lines = compare(run, methods, experts, budget)
    return EvaluationReport(
        run,
        budget,
        (*lines, *(others(budget) if others is not None else ())),
        tuple(by_epsilon),
        tuple(by_clip),
        approximation,
    )


def shown(line: Line) -> str:
    """An accuracy in percent with its standard error, or why there is none."""
    if line.accuracy is None:
        return line.note
    return percent(line.accuracy, line.error)


def _estimate(estimate: Any) -> str:
    return "not measured" if estimate is None else percent(estimate.mean, estimate.error)


def _epsilon(line: Line) -> str:
    if line.epsilon is None:
        return "not private" if line.method != "zero-shot" else "0"
    return "" if line.true_epsilon is None else f"{line.true_epsilon:.3g}"
