"""The methods of a run side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dpicl_rag.accounting import Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods.base import Method
from dpicl_research.approximation import Approximation, approximations, by_rank
from dpicl_research.comparison import Estimate, Line, compare, spent, with_clip, with_rate
from dpicl_research.report import Report, Table, percent, side_by_side
from dpicl_research.scores_folder import Run

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
        by_answers: Where many answers share the budget, the same for fewer, as pairs of their
            number and line.
        by_rate: Methods with experts at other sampling rates, as pairs of rate and line.
        spent: Epsilon after some answers with the noise for all, as triples of their number,
            method and epsilon.
        by_rank: Mean probabilities of an expert's labels, the likeliest first; empty like
            ``approximation``.
    """

    run: Run
    budget: Budget
    lines: tuple[Line, ...]
    by_epsilon: tuple[Line, ...] = ()
    by_clip: tuple[tuple[float, Line], ...] = ()
    approximation: tuple[Approximation, ...] = field(default=())
    by_answers: tuple[tuple[float, Line], ...] = ()
    by_rate: tuple[tuple[float, Line], ...] = ()
    spent: tuple[tuple[int, str, float], ...] = ()
    by_rank: tuple[Estimate, ...] = ()

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
            "by_answers": [{"answers": n, **dataclasses.asdict(e)} for n, e in self.by_answers],
            "by_rate": [{"rate": rate, **dataclasses.asdict(e)} for rate, e in self.by_rate],
            "spent": [{"answers": n, "method": m, "epsilon": e} for n, m, e in self.spent],
            "by_rank": [dataclasses.asdict(estimate) for estimate in self.by_rank],
        }

    def tables(self) -> list[Table]:
        """See `Report`."""
        found = [self._accuracy()]
        if self.by_epsilon:
            found.append(self._sweep("epsilon", [(e.epsilon, e) for e in self.by_epsilon]))
        if self.by_clip:
            found.append(self._sweep("clip", list(self.by_clip)))
        for name, lines in (("answers", self.by_answers), ("sampling rate", self.by_rate)):
            if lines:
                found += [self._sweep(name, list(lines)), self._noise(name, lines)]
        if self.spent:
            found.append(self._spent())
        if self.approximation:
            found += [self._soft_against_hard(), self._ranks()]
        return found

    def heading(self) -> str:
        """See `Report`."""
        settings, done = self.run.settings, len(self.run.records)
        wanted = settings.seeds * settings.queries
        amount = f"{settings.seeds} seeds x {settings.queries} queries"
        if reads := self.run.reporting.exemplars:
            amount += f", {reads} exemplars each"
        if rates := self.run.reporting.rates:
            amount += f", sampled at rate {max(rates):g}"
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
        if name == "answers":
            title += f", epsilon {self.budget.epsilon:g}, delta {self.budget.delta:g} for them"
        return side_by_side(
            title if name in ("epsilon", "answers") else f"{title}, {self._terms()}",
            ("method",),
            {value: f"{value:g}" for value in sorted({value for value, _ in known})},
            # Why there is none stands in the first table.
            [((e.method,), value, "-" if e.accuracy is None else shown(e)) for value, e in known],
        )

    def _noise(self, name: str, lines: Sequence[tuple[float, Line]]) -> Table:
        noisy = [(value, line) for value, line in lines if line.parameter]
        return side_by_side(
            f"Noise against {name}: sigma of votes-gaussian and sampling, else lambda",
            ("method",),
            {value: f"{value:g}" for value in sorted({value for value, _ in lines})},
            [((line.method,), value, f"{line.parameter:.4g}") for value, line in noisy],
        )

    def _spent(self) -> Table:
        return side_by_side(
            f"Epsilon after some answers, with the noise of {self._terms()}",
            ("method",),
            {answers: str(answers) for answers, *_ in self.spent},
            [((method,), answers, f"{e:.3g}") for answers, method, e in self.spent],
        )

    def _soft_against_hard(self) -> Table:
        rows = tuple(
            (a.predictor, *(_estimate(e) for e in (a.likelihood, a.change, a.distance)))
            for a in self.approximation
        )
        columns = ("predictor", "predictive likelihood", "largest change", "distance to k-shot")
        experts = self.approximation[0].experts
        return Table(f"Soft against hard in percent, {experts} experts, no noise", columns, rows)

    def _ranks(self) -> Table:
        columns = tuple(f"label {rank}" for rank, _ in enumerate(self.by_rank, 1))
        title = "Probability of an expert's labels in percent, the likeliest first"
        return Table(title, columns, (tuple(map(_estimate, self.by_rank)),))

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
    answers: Sequence[int] = (),
    rates: Sequence[float] = (),
    others: Callable[[Budget], Sequence[Line]] | None = None,
) -> EvaluationReport:
    """Evaluate methods from the scores of a run.

    Args:
        run: With at least one record.
        methods: Which ones, in the order of the tables.
        budget: What every private method gets.
        epsilons: Budgets of the sweep; none leaves it out.
        clips: Clip bounds of the sweep; none leaves it out.
        answers: Numbers of answers that share the budget, and that it is spent after.
        rates: Sampling rates of the sweep, for methods with experts.
        others: Lines at a budget that do not come from scores, such as `written_lines`.

    Raises:
        ConfigurationError: The run has no record, or a value of a sweep is outside its range.
    """
    if not run.records:
        raise ConfigurationError(f"{run.name}: the run has no scores yet")
    experts = run.settings.experts
    largest = experts[-1:]
    private = [method for method in methods if method.private]

    def at(budget: Budget, changed: Callable[[Method], Method | None] = lambda m: m) -> list[Line]:
        found = [method for each in private if (method := changed(each)) is not None]
        return compare(run, found, largest, budget)

    def beside(budget: Budget) -> list[Line]:
        known = () if others is None else others(budget)
        return [e for e in known if e.epsilon and not e.note and e.experts == experts[-1]]

    budgets = [dataclasses.replace(budget, epsilon=epsilon) for epsilon in epsilons]
    by_epsilon = [at(one) + beside(one) for one in budgets]
    by_clip = [(clip, at(budget, partial(with_clip, clip=clip))) for clip in clips]
    by_answers = [(n, at(dataclasses.replace(budget, queries=n))) for n in answers]
    by_rate = [(rate, at(budget, partial(with_rate, rate=rate))) for rate in rates]
    costs = {method.name: spent(method, budget, answers) for method in private if answers}
    approximation: tuple[Approximation, ...] = ()
    ranks: tuple[Estimate, ...] = ()
    with suppress(KeyError):
        approximation = tuple(approximations(run, experts[-1]))
        ranks = tuple(by_rank(run, experts[-1]))
    return EvaluationReport(
        run,
        budget,
        (*compare(run, methods, experts, budget), *(others(budget) if others else ())),
        tuple(line for lines in by_epsilon for line in lines),
        _pairs(by_clip),
        approximation,
        _pairs(by_answers),
        _pairs(by_rate),
        tuple(
            (number, name, epsilon)
            for name, own in costs.items()
            for number, epsilon in zip(answers, own or (), strict=False)
        ),
        ranks,
    )


def _pairs(sweep: Sequence[tuple[float, Sequence[Line]]]) -> tuple[tuple[float, Line], ...]:
    return tuple((value, line) for value, lines in sweep for line in lines)


def fewer_answers(answers: int) -> list[int]:
    """Powers of ten up to a number of answers, and the number; none for a single one."""
    powers = [10**n for n in range(len(str(answers)))]
    return [*powers, *(n for n in [answers] if n not in powers)] if answers > 1 else []


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
