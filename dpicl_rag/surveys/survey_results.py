"""Results of counts, tallies and surveys: estimates with intervals, bars, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, ClassVar

from dpicl_rag.languages.prose import Prose, prose_for
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.rehearsal import Labelling, Reading
from dpicl_rag.results import Estimate, Paid, Share, cost_of, notebook_table, privacy_rows

LISTED = 24
"""Themes of a survey that are listed where people read; numbers have all."""


def _held(
    prose: Prose, known: Reading | Labelling | None, *, complete: bool, asked: int | None = None
) -> list[str]:
    """What intervals are of, by what is known of how a model reads, and what is left out."""
    reading = known.reading if isinstance(known, Labelling) else known
    key = "mislabelled" if isinstance(known, Labelling) else "misread"
    held = prose.sentence("noise") if reading is None else prose.reading(key, **_rates(reading))
    if complete:
        return [held]
    left_out = prose.sentence("left_out") if asked is None else prose.number("left_out_of", asked)
    return [held, left_out]


def _rates(reading: Reading) -> dict[str, float]:
    return {"yes": reading.yes.mean, "no": reading.no.mean}


@dataclass(frozen=True, slots=True)
class PrivateCount:
    """About how many units say yes.

    Attributes:
        question: What they were asked.
        yes: How many.
        reading: How often the model is right, by its rehearsal, which ``yes`` is corrected by; its
            interval holds noise and misreading. None where it is not: it holds noise alone.
        asked: About how many were asked; None where that was not counted.
        epsilon: It is (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho that it cost any unit at most, its search included.
        complete: Whether every unit could pay, by public numbers. Under individual accounting one
            that could not was left out, which no interval covers.
        from_memory: Whether it was released before; its interval is of that time, and it is free.
    """

    kind: ClassVar = "count"

    question: str
    yes: Estimate
    epsilon: float
    delta: float
    rho: float
    complete: bool = True
    reading: Reading | None = None
    asked: int | None = None
    from_memory: bool = False

    @property
    def text(self) -> str:
        """A sentence in the question's language, and what the interval holds."""
        prose = prose_for(self.question)
        held = _held(prose, self.reading, complete=self.complete, asked=self.asked)
        return " ".join([prose.yes(self.yes), *held])

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, for JSON."""
        rates = None if self.reading is None else _rates(self.reading)
        beside = {"complete": self.complete, "from_memory": self.from_memory, **cost_of(self)}
        told = {"text": self.text, "yes": asdict(self.yes), "asked": self.asked}
        return {**told, "read_right": rates, **beside}

    def _repr_html_(self) -> str:
        return notebook_bars(self.question, {"yes": self.yes}, self)


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
        labelling: How often the model gives the right label, by its rehearsal, which ``counts`` are
            corrected by; their intervals hold noise and misreading. None where they are not: they
            hold noise alone.
        from_memory: Whether it was released before; it is free then.
    """

    kind: ClassVar = "tally"

    question: str
    counts: Mapping[str, Estimate]
    total: Estimate
    epsilon: float
    delta: float
    rho: float
    complete: bool = True
    labelling: Labelling | None = None
    from_memory: bool = False

    @staticmethod
    def of(
        question: str,
        labels: Sequence[str],
        counted: Counted,
        labelling: Labelling | None = None,
        estimates: Sequence[Estimate] | None = None,
    ) -> PrivateTally:
        """The tally of noisy counts of labels, or of what they are corrected to."""
        counts = dict(zip(labels, estimates or counted.estimates, strict=True))
        return PrivateTally(question, counts, counted.total, *counted.cost, labelling)

    @property
    def shares(self) -> dict[str, Share]:
        """The part of each label in all that was said."""
        return {label: Share.of(count, self.total) for label, count in self.counts.items()}

    @property
    def text(self) -> str:
        """A sentence in the question's language, the most frequent label first, and `notes`."""
        ordered = sorted(self.counts.items(), key=lambda one: -one[1].units)
        told = prose_for(self.question).counts("said", ordered, self.total)
        return " ".join([told, *self.notes])

    @property
    def notes(self) -> list[str]:
        """What the intervals hold, and what is left out."""
        return _held(prose_for(self.question), self.labelling, complete=self.complete)

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, for JSON."""
        return {
            "text": self.text,
            "counts": {label: asdict(count) for label, count in self.counts.items()},
            "shares": {label: asdict(share) for label, share in self.shares.items()},
            "total": asdict(self.total),
            "read_right": None if self.labelling is None else _rates(self.labelling.reading),
            "complete": self.complete,
            "from_memory": self.from_memory,
            **cost_of(self),
        }

    def _repr_html_(self) -> str:
        return notebook_bars(self.question, self.counts, self)


@dataclass(frozen=True, slots=True)
class PrivateColumn(PrivateTally):
    """About how many units have each value of a metadata column.

    Attributes:
        smallest: Values that fewer units have are hardly ever listed; None where a public list has
            all values that are counted.
    """

    kind: ClassVar = "column"

    smallest: int | None = None

    @property
    def text(self) -> str:
        """A sentence in the question's language, the most frequent value first."""
        prose = prose_for(self.question)
        ordered = sorted(self.counts.items(), key=lambda one: -one[1].units)
        told = [prose.counts("named", ordered)] if ordered else []
        told += [] if self.smallest is None else [prose.number("rarer", self.smallest)]
        return " ".join(told if self.complete else [*told, prose.sentence("left_out")])

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, for JSON."""
        return {**PrivateTally.as_dict(self), "smallest": self.smallest}


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

    @property
    def title(self) -> str:
        """Its name."""
        return self.name


@dataclass(frozen=True, slots=True)
class SurveyedUnits:
    """Themes of the units of a corpus, as a survey or a summary has them.

    Attributes:
        question: What they were asked, if anything.
        themes: The theme of most units first.
        others: How many units are of none of them.
        total: About how many units there are.
        smallest: Words that fewer units are near to were hardly ever shown.
        epsilon: It is (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho that it cost any unit at most.
        complete: As of a count.
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
    complete: bool = True
    from_memory: bool = False

    def told(self, most: int) -> list[tuple[str, Estimate]]:
        """Themes that prose lists, with their units: none that may have no unit."""
        return [(one.title, one.units) for one in self.themes if one.units.low > 0][:most]

    @property
    def notes(self) -> list[str]:
        """What was hardly ever shown, and what is left out."""
        prose = prose_for(self.question)
        smallest = prose.number("smallest", self.smallest)
        return [smallest] if self.complete else [smallest, prose.sentence("left_out")]

    def _numbers(self, text: str, themes: list[dict[str, Any]]) -> dict[str, Any]:
        """Numbers of themes, and of all units, for JSON."""
        return {
            "text": text,
            "themes": themes,
            "others": asdict(self.others),
            "total": asdict(self.total),
            "smallest": self.smallest,
            "complete": self.complete,
            "from_memory": self.from_memory,
            **cost_of(self),
        }

    def _bars(self, title: str) -> str:
        counts = {theme.title: theme.units for theme in self.themes[:LISTED]}
        return notebook_bars(title, {**counts, "others": self.others}, self)


@dataclass(frozen=True, slots=True)
class PrivateSurvey(SurveyedUnits):
    """A survey: themes of the units of a corpus, with their shares."""

    kind: ClassVar = "survey"

    @property
    def shares(self) -> dict[str, Share]:
        """The part of each theme in all units."""
        return {theme.name: Share.of(theme.units, self.total) for theme in self.themes}

    @property
    def text(self) -> str:
        """Sentences in the question's language, the theme of most units first; see ``told``."""
        prose = prose_for(self.question)
        listed = self.told(LISTED)
        told = [prose.counts("about", listed, self.total, self.others)]
        if (smaller := len(self.themes) - len(listed)) > 0:
            told.append(prose.number("smaller", smaller))
        return " ".join([*told, *self.notes])

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, for JSON."""
        shares = self.shares
        themes = [{**asdict(one), "share": asdict(shares[one.name])} for one in self.themes]
        return self._numbers(self.text, themes)

    def _repr_html_(self) -> str:
        return self._bars(self.question or "")


@dataclass(frozen=True, slots=True)
class SummarisedTheme(SurveyedTheme):
    """A theme of a summary.

    Attributes:
        agreed: Words on which many of its units agree when they are asked why they were written,
            the most frequent first, with about how many give each; empty where too few do, or none
            was asked.
        sentence: A public model's sentence of these words; None where it wrote none.
    """

    agreed: Mapping[str, Estimate]
    sentence: str | None

    @property
    def title(self) -> str:
        """Its name, with the words that its units agree on where no sentence has them."""
        said = "" if self.sentence else ", ".join(list(self.agreed)[:_TITLE])
        return f"{self.name} ({said})" if said else self.name


_TITLE = 3  # words of a title


@dataclass(frozen=True, slots=True)
class PrivateSummary(SurveyedUnits):
    """A summary: themes of the units of a corpus with shares, and what units of the largest say."""

    kind: ClassVar = "summary"

    themes: tuple[SummarisedTheme, ...]

    @property
    def shares(self) -> list[Share]:
        """The part of each theme in all units."""
        return [Share.of(theme.units, self.total) for theme in self.themes]

    @property
    def text(self) -> str:
        """Sentences in the question's language, the theme of most units first; see ``told``."""
        prose = prose_for(self.question)
        told = [prose.counts("about", self.told(_SUMMARISED), self.total, self.others)]
        told += [f"{one.sentence}." for one in self.themes if one.sentence]
        return " ".join([*told, *self.notes])

    def as_dict(self) -> dict[str, Any]:
        """Its numbers, for JSON."""
        each = zip(self.themes, self.shares, strict=True)
        themes = [{"title": one.title, **asdict(one), "share": asdict(own)} for one, own in each]
        return self._numbers(self.text, themes)

    def _repr_html_(self) -> str:
        return self._bars(self.text)


ReleasedNumbers = PrivateCount | PrivateTally | PrivateSurvey | PrivateSummary
"""Numbers that come of counting units."""

_SUMMARISED = 8  # themes that a summary tells in words

_WIDTH = 240  # pixels of the longest interval


def notebook_bars(title: str, counts: Mapping[str, Estimate], found: Paid) -> str:
    """HTML of bars, the longest first, and of what they cost.

    Args:
        title: Over them.
        counts: By label.
        found: What they cost.
    """
    privacy = privacy_rows(found.epsilon, found.delta, found.rho)
    longest = max(1, max((count.high for count in counts.values()), default=1))
    rows = []
    for label, count in sorted(counts.items(), key=lambda one: -one[1].units):
        bar, low, high = (
            round(_WIDTH * number / longest) for number in (count.units, count.low, count.high)
        )
        drawn = (
            f'<svg width="{_WIDTH}" height="16" role="img" aria-label="{escape(str(count))}">'
            f'<rect width="{bar}" height="12" y="2" fill="#4c78a8"/>'
            f'<line x1="{low}" x2="{high}" y1="8" y2="8" stroke="#222" stroke-width="2"/></svg>'
        )
        cells = f"<th>{escape(label)}</th><td>{drawn}</td><td>{escape(str(count))}</td>"
        rows.append(f"<tr>{cells}</tr>")
    return f"<p>{escape(title)}</p><table>{''.join(rows)}</table>" + notebook_table("", privacy)


@dataclass(frozen=True, slots=True)
class Counted:
    """Noisy counts as they were released, and what they cost. Public.

    Attributes:
        noisy: One for each label.
        noise: On each.
        rate: Public probability with which a unit was asked.
        epsilon: All counts together are (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho that they cost any unit at most.
        complete: Whether every unit could pay, by public numbers; one that could not was left out.
    """

    noisy: Sequence[int]
    noise: DiscreteGaussian
    rate: float
    epsilon: float
    delta: float
    rho: float
    complete: bool = True

    @property
    def estimates(self) -> list[Estimate]:
        """One for each label."""
        return [Estimate.of(one, self.noise, self.rate) for one in self.noisy]

    @property
    def total(self) -> Estimate:
        """Of their sum, whose noise is that of all of them."""
        return Estimate.of(sum(self.noisy), self.noise_of_sum, self.rate)

    @property
    def noise_of_sum(self) -> DiscreteGaussian:
        """Noise on the sum of all counts."""
        return DiscreteGaussian(math.sqrt(max(1, len(self.noisy))) * self.noise.sigma)

    @property
    def cost(self) -> tuple[float, float, float, bool]:
        """Epsilon, delta and rho, and whether every unit could pay."""
        return self.epsilon, self.delta, self.rho, self.complete
