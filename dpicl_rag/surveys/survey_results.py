"""Results of counts and tallies: noisy numbers with intervals, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpicl_rag.notebook_table import privacy_rows
from dpicl_rag.results import cost_of
from dpicl_rag.surveys.bars import notebook_bars
from dpicl_rag.surveys.estimate import Estimate, Share
from dpicl_rag.surveys.released_counts import Counted

LISTED = 24
"""Themes of a survey that are listed where people read; numbers have all."""

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
        from_memory: Whether it was released before; its interval is of that time, and it is free.
    """

    question: str
    yes: Estimate
    epsilon: float
    delta: float
    rho: float
    complete: bool = True
    from_memory: bool = False

    @property
    def text(self) -> str:
        """One sentence."""
        return f"{str(self.yes).capitalize()} say yes.{'' if self.complete else _LEFT_OUT}"

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, for JSON."""
        beside = {"complete": self.complete, "from_memory": self.from_memory, **cost_of(self)}
        return {"text": self.text, "yes": asdict(self.yes), **beside}

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
        from_memory: Whether it was released before; it is free then.
    """

    question: str
    counts: Mapping[str, Estimate]
    total: Estimate
    epsilon: float
    delta: float
    rho: float
    complete: bool = True
    from_memory: bool = False

    @staticmethod
    def of(question: str, labels: Sequence[str], counted: Counted) -> PrivateTally:
        """What noisy counts of labels say."""
        counts = dict(zip(labels, counted.estimates, strict=True))
        return PrivateTally(question, counts, counted.total, *counted.cost)

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

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, for JSON."""
        return {
            "text": self.text,
            "counts": {label: asdict(count) for label, count in self.counts.items()},
            "shares": {label: asdict(share) for label, share in self.shares.items()},
            "total": asdict(self.total),
            "complete": self.complete,
            "from_memory": self.from_memory,
            **cost_of(self),
        }

    def _repr_html_(self) -> str:
        rows = privacy_rows(self.epsilon, self.delta, self.rho)
        return notebook_bars(self.question, self.counts, rows)


@dataclass(frozen=True, slots=True)
class SurveyedTheme:
    """A theme of a survey.

    Attributes:
        name: Its two most frequent words.
        words: How many units are near to each of its words; a unit is near to several.
        units: How many units are of it.
    """

    name: str
    words: Mapping[str, Estimate]
    units: Estimate


@dataclass(frozen=True, slots=True)
class PrivateSurvey:
    """What the units of a corpus are about.

    Attributes:
        question: What they were asked, if anything.
        themes: The theme of most units first.
        others: How many units are of none of them.
        total: About how many units there are.
        smallest: Words that fewer units are near to were hardly ever shown.
        epsilon: The survey is (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho that it cost every unit.
        from_memory: Whether it was released before; it is free then.
    """

    question: str | None
    themes: tuple[SurveyedTheme, ...]
    others: Estimate
    total: Estimate
    smallest: int
    epsilon: float
    delta: float
    rho: float
    from_memory: bool = False

    @property
    def shares(self) -> dict[str, Share]:
        """The part of each theme in all units."""
        return {theme.name: Share.of(theme.units, self.total) for theme in self.themes}

    @property
    def text(self) -> str:
        """A line for each theme."""
        if not self.themes:
            return f"No theme of {self.smallest} units or more."
        shares = self.shares
        lines = [
            f"{one.name}: {one.units}, {shares[one.name].part:.0%}" for one in self.themes[:LISTED]
        ]
        if (smaller := len(self.themes) - LISTED) > 0:
            lines.append(f"and {smaller} smaller themes")
        return "\n".join([*lines, f"others: {self.others}"])

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, for JSON."""
        shares = self.shares
        themes = [{**asdict(one), "share": asdict(shares[one.name])} for one in self.themes]
        return {
            "text": self.text,
            "themes": themes,
            "others": asdict(self.others),
            "total": asdict(self.total),
            "smallest": self.smallest,
            "from_memory": self.from_memory,
            **cost_of(self),
        }

    def _repr_html_(self) -> str:
        counts = {theme.name: theme.units for theme in self.themes[:LISTED]}
        rows = privacy_rows(self.epsilon, self.delta, self.rho)
        return notebook_bars(self.question or "", {**counts, "others": self.others}, rows)
