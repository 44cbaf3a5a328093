"""Results of counts and tallies: noisy numbers with intervals, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpicl_rag.answering.notebook_table import privacy_rows
from dpicl_rag.surveys.bars import notebook_bars
from dpicl_rag.surveys.estimate import Estimate, Share

_LEFT_OUT = " Units that have spent their budget are not counted."


@dataclass(frozen=True, slots=True)
class PrivateCount:
    """About how many units say yes.

    Attributes:
        question: What they were asked.
        yes: How many.
        epsilon: It is (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho that it cost any unit at most, its search included.
        complete: Whether every unit could pay, by public numbers. Under individual accounting one
            that could not was left out, which no interval covers.
    """

    question: str
    yes: Estimate
    epsilon: float
    delta: float
    rho: float
    complete: bool = True

    @property
    def text(self) -> str:
        """One sentence."""
        return f"{str(self.yes).capitalize()} say yes.{'' if self.complete else _LEFT_OUT}"

    def _repr_html_(self) -> str:
        rows = privacy_rows(self.epsilon, self.delta, self.rho)
        return notebook_bars(self.question, {"yes": self.yes}, rows)


@dataclass(frozen=True, slots=True)
class PrivateTally:
    """About how many units say each label.

    Attributes:
        question: What they were asked.
        counts: How many say each label, in the order of the labels.
        total: About how many labels were said in all.
        epsilon: The tally is (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho that it cost any unit at most, its search included.
        complete: Whether every unit could pay, by public numbers. Under individual accounting one
            that could not was left out, which no interval covers.
    """

    question: str
    counts: Mapping[str, Estimate]
    total: Estimate
    epsilon: float
    delta: float
    rho: float
    complete: bool = True

    @property
    def shares(self) -> dict[str, Share]:
        """The part of each label in all that was said."""
        return {label: Share.of(count, self.total) for label, count in self.counts.items()}

    @property
    def text(self) -> str:
        """A line for each label, the most frequent first."""
        shares = self.shares
        ordered = sorted(self.counts, key=lambda label: -self.counts[label].units)
        lines = [f"{name}: {self.counts[name]}, {shares[name].part:.0%}" for name in ordered]
        return "\n".join(lines if self.complete else [*lines, _LEFT_OUT.strip()])

    def _repr_html_(self) -> str:
        rows = privacy_rows(self.epsilon, self.delta, self.rho)
        return notebook_bars(self.question, self.counts, rows)
