"""Membership inference on stored scores: is this example one of the context?

Per seed a context of n examples is drawn and attacked with 2n queries: its examples and n others.
The query is an example's text, and the attacker knows its label y. Three attacks:

- *likelihood ratio* (Private PoEtry, appendix E.2): ``log p(y) - log p_0(y)``, where p_0 is the
  model without examples.
- *confidence* (AdaDPSyn, C.6, after Duan et al. 2023): ``p(y)`` by itself.
- *released label*: is the label that came out the example's? What a user of the private path
  sees; in expectation over the draw.

For the first two the attacker is handed the exact distribution p of the output, which the private
path never shows: differential privacy of one released label says nothing of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpicl_rag.accounting import Adjacency, Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods.base import Method, ZeroShot
from dpicl_rag.methods.registry import make
from dpicl_research.approximation import predicted
from dpicl_research.attack import Attack, attack, coin_attack, largest_auroc
from dpicl_research.comparison import calibrations, label_distribution
from dpicl_research.report import Report, Table
from dpicl_research.scores_folder import Record, Run

PLAIN = ("zero-shot", "k-shot", "soft", "hard")
"""Paths without privacy; the first one has no examples and must be at 0.5."""

_SMALLEST = 1e-12  # probabilities below it are as good as none

Output = Callable[[Record], float]
"""Probability that the output is the attacked example's label."""


@dataclass(frozen=True, slots=True)
class MembershipLine:
    """Attacks on one path.

    Attributes:
        path: A method's name.
        private: Whether it is private.
        likelihood_ratio: Attack with the exact distribution, against the bare model's.
        confidence: Attack with the exact distribution.
        released: Attack with one released label.
        bound: What no attack on a released label can exceed; None without privacy. A context
            with an example and one of the same size without it differ by a replacement.
    """

    path: str
    private: bool
    likelihood_ratio: Attack
    confidence: Attack
    released: Attack
    bound: float | None


@dataclass(frozen=True, slots=True)
class MembershipReport(Report):
    """Attacks on all paths of a run.

    Attributes:
        run: What it is about.
        budget: What every private method got.
        lines: A line per path.
        left_out: Methods without a sound charge, or without rows in this run.
    """

    run: Run
    budget: Budget
    lines: tuple[MembershipLine, ...]
    left_out: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """See `Report`."""
        settings = self.run.settings
        return {
            "task": settings.task,
            "seeds": settings.seeds,
            "examples": settings.queries,
            "complete": self.run.complete,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "adjacency": str(self.budget.adjacency),
            "attacks": [dataclasses.asdict(line) for line in self.lines],
            "left_out": list(self.left_out),
        }

    def heading(self) -> str:
        """See `Report`."""
        settings = self.run.settings
        unfinished = "" if self.run.complete else ", UNFINISHED"
        return (
            f"{settings.task}: membership inference, {settings.seeds} seeds x "
            f"{settings.queries} examples, half of them in the context{unfinished}"
        )

    def tables(self) -> list[Table]:
        """See `Report`."""
        level = self.lines[0].confidence.confidence
        budget = self.budget
        adjacency = str(budget.adjacency).replace("_", " ")
        title = (
            f"AUROC with {level:.0%} interval, epsilon {budget.epsilon:g}, delta "
            f"{budget.delta:g}, {adjacency}"
        )
        columns = ("path", "likelihood ratio", "confidence", "released label", "bound on the last")
        rows = tuple(
            (
                line.path + ("" if line.private else " (not private)"),
                shown_attack(line.likelihood_ratio),
                shown_attack(line.confidence),
                shown_attack(line.released),
                "" if line.bound is None else f"{line.bound:.4f}",
            )
            for line in self.lines
        )
        return [Table(title, columns, rows)]


def build_membership_report(
    run: Run, methods: Sequence[Method], budget: Budget
) -> MembershipReport:
    """Attack every path of a run whose queries are examples.

    Raises:
        ConfigurationError: The run is of another kind or has no whole seed yet.
    """
    if run.settings.kind != "membership":
        raise ConfigurationError(f"{run.name}: its queries are no examples of the context")
    whole = _whole_seeds(run)
    if not whole:
        raise ConfigurationError(f"{run.name}: no seed is finished yet")
    experts = run.settings.experts[-1]
    lines, left_out = [], []
    for name in PLAIN:
        try:
            lines.append(_line(name, whole, _plain(name, experts), None))
        except KeyError:
            left_out.append(name)
    for method in methods:
        if not method.private:
            continue
        try:
            output = _private(method, experts, budget)
            lines.append(_line(_path(method), whole, output, replacement_bound(budget)))
        except (KeyError, ConfigurationError):
            left_out.append(method.name)
    if not lines:
        raise ConfigurationError(f"{run.name}: the run has no rows of these methods")
    return MembershipReport(run, budget, tuple(lines), tuple(left_out))


def _line(
    path: str, seeds: Sequence[Sequence[Record]], output: Output, bound: float | None
) -> MembershipLine:
    def split(score: Callable[[Record], float]) -> tuple[list[list[float]], list[list[float]]]:
        scores = [[score(record) for record in seed] for seed in seeds]
        half = len(seeds[0]) // 2
        return [s[:half] for s in scores], [s[half:] for s in scores]

    def ratio(record: Record) -> float:
        bare = float(record.view(ZeroShot(), 0)[0][record.right])
        # Rounding errors must not order what is equal.
        return round(math.log(max(output(record), _SMALLEST)) - bare, 9)

    return MembershipLine(
        path,
        bound is not None,
        attack(*split(ratio)),
        attack(*split(output)),
        coin_attack(*split(output)),
        bound,
    )


def _path(method: Method) -> str:
    size = method.parameters.get("group_size", 1)
    usual = make(method.name).parameters.get("group_size", 1)
    return method.name if size == usual else f"{method.name}, {size} per expert"


def _plain(name: str, experts: int) -> Output:
    return lambda record: float(predicted(record, name, experts)[record.right])


def _private(method: Method, experts: int, budget: Budget) -> Output:
    exact = calibrations(method, budget)[0]
    return lambda record: float(label_distribution(record, method, experts, exact)[record.right])


def replacement_bound(budget: Budget) -> float:
    """The AUROC that no attack on a release exceeds, between a record and another in its place.

    A replacement is a removal and an arrival: group privacy where that is the adjacency.
    """
    if budget.adjacency is Adjacency.REPLACE_ONE:
        return largest_auroc(budget.epsilon, budget.delta)
    if budget.epsilon > 300:
        return 1.0
    delta = min(1.0, (1 + math.exp(budget.epsilon)) * budget.delta)
    return largest_auroc(2 * budget.epsilon, delta)


def _whole_seeds(run: Run) -> list[list[Record]]:
    seeds: dict[int, list[Record]] = {}
    for record in run.records:
        seeds.setdefault(record.seed, []).append(record)
    return [records for records in seeds.values() if len(records) == run.settings.queries]


def shown_attack(found: Attack) -> str:
    """An AUROC with its interval."""
    return f"{found.auroc:.3f} [{found.low:.3f}, {found.high:.3f}]"
