"""Convergence of a product of experts to one prompt with all examples, as examples are added.

Private PoEtry, theorem 3.4, is of scores divided by the number n of examples: where what examples
say only together is bounded by a constant R, ``softmax(log p(y | D) / n)`` comes to a limit, and
that of the product to the same one, if the prior of the query alone is counted once. Undivided both
grow surer with n, their log-ratio may keep a range of 2 R, and the theorem says nothing. Here both
are measured, without noise, at every number of examples of a run:

- *Distance*: total variation distance of the product to the prompt with all examples.
- *Divided*: the same of both with log-probabilities divided by n.
- *Interaction*: what the one prompt says beyond its examples by themselves, in nats: the range over
  labels of ``log p(y | D) - log product(y)``, both normalised. At 0 the two are equal.
- *Margin*: log-odds of the likeliest label against the second, in nats.

A range of I nats allows a distance of ``tanh(I / 4)`` and no more (two labels reach it), divided
``tanh(I / 4n)``, and where the margin is larger than I both have the same likeliest label. So
divided scores converge where I grows more slowly than n, and the product itself where its margin
outgrows I. ``soft`` counts the prior n times, as the paper's own algorithm does; divided by n that
stays. Of ``soft with prior`` I is what the theorem bounds by 2 R.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods.base import OneEach, OnePrompt, ZeroShot
from dpicl_research.approximation import predicted
from dpicl_research.comparison import Estimate, over_seeds
from dpicl_research.report import Report, Table, percent
from dpicl_research.scores_folder import Record, Run

MEASURED = ("k-shot", "soft", "soft with prior", "hard")
"""Predictors that are measured; see `approximation.PREDICTORS`. The first is the one prompt itself,
for its margin."""


@dataclass(frozen=True, slots=True)
class Point:
    """Figures of one predictor at one number of examples: means over queries, then over seeds.

    Attributes:
        predictor: One of ``MEASURED``.
        experts: Number of examples.
        distance: Total variation distance to one prompt with all of them, 0 to 1.
        divided: The same of log-probabilities over the number of examples; None for ``hard``.
        same_label: Share of queries for which both have the same likeliest label.
        interaction: In nats; None for ``hard``, where labels without a vote have probability 0.
        margin: In nats; None for ``hard``.
    """

    predictor: str
    experts: int
    distance: Estimate
    divided: Estimate | None
    same_label: Estimate
    interaction: Estimate | None
    margin: Estimate | None


@dataclass(frozen=True, slots=True)
class ConvergenceReport(Report):
    """Figures of a run at each of its numbers of examples.

    Attributes:
        run: What it is about.
        points: By predictor, then by number of examples.
    """

    run: Run
    points: tuple[Point, ...]

    def summary(self) -> dict[str, Any]:
        """See `Report`."""
        settings = self.run.settings
        return {
            "task": settings.task,
            "model": settings.model,
            "seeds": settings.seeds,
            "queries": settings.queries,
            "complete": self.run.complete,
            "points": [asdict(point) for point in self.points],
        }

    def heading(self) -> str:
        """See `Report`."""
        settings = self.run.settings
        unfinished = "" if self.run.complete else ", UNFINISHED"
        return f"{settings.task}: {settings.seeds} seeds x {settings.queries} queries{unfinished}"

    def tables(self) -> list[Table]:
        """See `Report`."""
        columns = (
            *("predictor", "examples", "distance", "divided"),
            *("same label", "interaction", "margin"),
        )
        rows = tuple(
            (
                point.predictor,
                str(point.experts),
                percent(point.distance.mean, point.distance.error),
                "" if (apart := point.divided) is None else percent(apart.mean, apart.error),
                percent(point.same_label.mean, point.same_label.error),
                _nats(point.interaction),
                _nats(point.margin),
            )
            for point in self.points
        )
        title = "Product of experts against one prompt: percent, and nats; no noise"
        return [Table(title, columns, rows)]


def build_convergence_report(run: Run) -> ConvergenceReport:
    """Measure a run.

    Raises:
        ConfigurationError: The run has no scores, attacks membership, or lacks rows: it needs the
            methods ``zero-shot``, ``k-shot`` and ``soft``.
    """
    if run.settings.kind == "membership":
        raise ConfigurationError(f"{run.name}: its queries are examples of the context themselves")
    if not run.records:
        raise ConfigurationError(f"{run.name}: the run has no scores yet")
    try:
        points = tuple(_point(run, p, n) for p in MEASURED for n in run.settings.experts)
    except KeyError:
        raise ConfigurationError(
            f"{run.name}: lacks rows; run it with --methods zero-shot,k-shot,soft"
        ) from None
    return ConvergenceReport(run, points)


def interaction(whole: torch.Tensor, product: torch.Tensor) -> float:
    """Range of the log ratio of two distributions, in nats.

    Args:
        whole: Log-probabilities [labels].
        product: Those of the other one [labels].
    """
    ratio = whole - product
    return float(ratio.max() - ratio.min())


def log_predicted(record: Record, name: str, experts: int) -> torch.Tensor:
    """Log-probabilities of a predictor that is not ``hard``, float64 [labels].

    Raises:
        KeyError: The run lacks rows.
    """
    if name == "k-shot":
        return record.view(OnePrompt(), experts)[0]
    rows = record.view(OneEach(), experts)
    prior = record.view(ZeroShot(), experts)[0]
    taken_out = len(rows) - 1 if name == "soft with prior" else 0
    return torch.log_softmax(rows.sum(dim=0) - taken_out * prior, dim=0)


def _point(run: Run, name: str, experts: int) -> Point:
    def mean(value: Callable[[Record, torch.Tensor], float]) -> Estimate:
        return over_seeds(run, lambda r: value(r, r.view(OnePrompt(), experts)[0]))

    def distance(record: Record, whole: torch.Tensor) -> float:
        return float((predicted(record, name, experts) - whole.exp()).abs().sum() / 2)

    def divided(record: Record, whole: torch.Tensor) -> float:
        product = log_predicted(record, name, experts)
        one, other = (torch.softmax(scores / experts, dim=0) for scores in (product, whole))
        return float((one - other).abs().sum() / 2)

    def same_label(record: Record, whole: torch.Tensor) -> float:
        return float(predicted(record, name, experts).argmax() == whole.argmax())

    def beyond(record: Record, whole: torch.Tensor) -> float:
        return interaction(whole, log_predicted(record, name, experts))

    def margin(record: Record, whole: torch.Tensor) -> float:
        first, second = log_predicted(record, name, experts).topk(2).values
        return float(first - second)

    smooth = name != "hard"
    return Point(
        name,
        experts,
        mean(distance),
        mean(divided) if smooth else None,
        mean(same_label),
        mean(beyond) if smooth else None,
        mean(margin) if smooth else None,
    )


def _nats(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    found = f"{estimate.mean:.2f}"
    return found if estimate.error is None else f"{found} ± {estimate.error:.2f}"
