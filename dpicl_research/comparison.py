"""Accuracy of methods from stored scores: exact expectations over the noise, no draws."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import torch

from dpicl_rag.accounting import Budget, epsilon_for
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods.base import Calibrated, Method
from dpicl_research.expert_settings import has_experts
from dpicl_research.scores_folder import Record, Run


@dataclass(frozen=True, slots=True)
class Line:
    """One method at one number of experts and one budget.

    Attributes:
        method: Its name, with ``, as published`` where the noise is the paper's.
        experts: Number of examples.
        epsilon: What was asked for, or None for a method without privacy.
        true_epsilon: What the noise really gives at delta; larger than ``epsilon`` where a
            published formula is wrong. None without privacy.
        accuracy: Probability of the right label, mean over queries and then over seeds; None
            where the method has no sound charge for this adjacency or the run lacks its rows.
        error: Standard error of that mean over seeds; None with one seed.
        note: Why there is no accuracy.
        parameter: Of the mechanism, see ``Calibrated``; None where there is no accuracy.
    """

    method: str
    experts: int
    epsilon: float | None
    true_epsilon: float | None
    accuracy: float | None
    error: float | None
    note: str = ""
    parameter: float | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds and its standard error, None with one seed."""

    mean: float
    error: float | None

    @staticmethod
    def of(values: Sequence[float]) -> Estimate:
        """From one value of each seed."""
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return Estimate(fmean(values), error)


def over_seeds(run: Run, value: Callable[[Record], float]) -> Estimate:
    """Mean over queries, then over seeds, with the standard error over seeds."""
    by_seed: dict[int, list[float]] = defaultdict(list)
    for record in run.records:
        by_seed[record.seed].append(value(record))
    return Estimate.of([fmean(values) for values in by_seed.values()])


def compare(
    run: Run, methods: Sequence[Method], experts: Sequence[int], budget: Budget
) -> list[Line]:
    """All methods at one budget, for each number of experts.

    A method whose paper sets less noise than the budget needs, or more, has two lines.
    """
    lines = []
    for n in experts:
        for method in methods:
            lines += _lines(run, method, n, budget)
    return lines


def accuracy(run: Run, method: Method, experts: int, calibrated: Calibrated) -> Estimate:
    """Expected accuracy of a method.

    Raises:
        KeyError: The run lacks rows that the method needs.
    """

    def right(record: Record) -> float:
        return float(label_distribution(record, method, experts, calibrated)[record.right])

    return over_seeds(run, right)


def label_distribution(
    record: Record, method: Method, experts: int, calibrated: Calibrated
) -> torch.Tensor:
    """Exact output distribution of a method for one query [labels].

    Raises:
        KeyError: The run lacks rows that the method needs.
    """
    views = {layout: record.view(layout, experts) for layout in method.layouts(experts)}
    return method.distribution(views, calibrated)


def with_clip(method: Method, clip: float) -> Method | None:
    """The method with another clip bound, or None where it has none."""
    return _replaced(method, clip=clip) if "clip" in method.parameters else None


def with_rate(method: Method, rate: float) -> Method | None:
    """The method with examples sampled at another rate, or None where it has no experts."""
    return _replaced(method, rate=rate) if has_experts(method) else None


def calibrations(method: Method, budget: Budget) -> tuple[Calibrated, ...]:
    """The exact noise for a budget, and the published one where it is another.

    Raises:
        ConfigurationError: The method has no sound charge for the adjacency.
    """
    exact = method.calibrate(budget)
    published = method.published(budget)
    return (exact,) if published is None else (exact, published)


def spent(method: Method, budget: Budget, answers: Sequence[int]) -> list[float] | None:
    """Epsilon after some answers, with the noise for all of a budget's.

    Args:
        method: A private one.
        budget: Of all answers.
        answers: Numbers of them.

    Returns:
        Epsilon at the budget's delta after each; None where the method has no sound charge.
    """
    try:
        event = method.calibrate(budget).event
    except ConfigurationError:
        return None
    if event is None:
        return None
    return [epsilon_for(event, dataclasses.replace(budget, queries=n)) for n in answers]


def _replaced(method: Method, **values: float) -> Method:
    changed: Any = dataclasses.replace(method, **values)  # type: ignore[type-var]
    found: Method = changed
    return found


def _lines(run: Run, method: Method, experts: int, budget: Budget) -> list[Line]:
    asked = budget.epsilon if method.private else None
    try:
        found = calibrations(method, budget)
        return [_line(run, method, experts, budget, calibrated) for calibrated in found]
    except ConfigurationError as error:
        return [Line(method.name, experts, asked, None, None, None, str(error))]
    except KeyError:
        note = "not in this run: run it again with this method"
        return [Line(method.name, experts, asked, None, None, None, note)]


def _line(run: Run, method: Method, experts: int, budget: Budget, calibrated: Calibrated) -> Line:
    estimate = accuracy(run, method, experts, calibrated)
    published = calibrated.noise == "published"
    return Line(
        method=method.name + (", as published" if published else ""),
        experts=experts,
        epsilon=budget.epsilon if method.private else None,
        true_epsilon=_true_epsilon(calibrated, budget),
        accuracy=estimate.mean,
        error=estimate.error,
        parameter=calibrated.parameter,
    )


def _true_epsilon(calibrated: Calibrated, budget: Budget) -> float | None:
    if calibrated.event is None:
        return None
    if calibrated.noise == "exact":
        return budget.epsilon
    return epsilon_for(calibrated.event, budget)
