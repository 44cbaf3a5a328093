"""Results: a DP output, and the public numbers that stand beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

StoppedBy = Literal["end", "length", "budget", "unavailable"]
"""The end of an answer: the model's end token or a stop string, ``max_tokens``, the budget, or an
engine that did not answer. What was released until then is paid for, and the rest refunded."""


ReleasedBy = Literal["agreement", "tokens", "memory", "published", "public", "counts"]
"""How an answer came about: experts said the same, tokens were drawn, public knowledge had it (the
same question was answered before, or documents confirmed what the model knew from there), a bundle
has it, no document was asked (small talk, and what is about one person), or units were counted."""


UNSUPPORTED = "The documents do not say."
"""Takes the place of an answer that they do not support, where that was asked for."""


class IntervalNoise(Protocol):
    """Noise on a count, as far as its interval follows from it."""

    @property
    def sigma(self) -> float:
        """Its standard deviation."""
        ...

    def least(self, probability: float) -> int:
        """The least number that it reaches with such a probability at most."""
        ...


_OUTSIDE = 0.05
INTERVAL = 1.96  # sigmas: of normal noise 95 in 100 are nearer


def within(noise: IntervalNoise) -> int:
    """A count with such noise is no further from the true one than this, 95 times in 100."""
    return noise.least(_OUTSIDE / 2) - 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """About how many units, by a noisy count. Public.

    Attributes:
        units: The estimate, at least 0.
        low: The true number is at least this and at most ``high``, 95 times in 100. Noise is all
            that this covers, and the sample where there is one; of a count what a model misreads,
            too, where its rehearsal tells how often.
        high: See ``low``.
    """

    units: int
    low: int
    high: int

    @staticmethod
    def of(noisy: int, noise: IntervalNoise, rate: float = 1.0) -> Estimate:
        """The estimate that a noisy count gives.

        Args:
            noisy: As it was released.
            noise: On it.
            rate: Public probability with which a unit was asked, by a coin of its own.
        """
        if rate == 1:
            reach = float(within(noise))
        else:
            # Coins of the units that say so, of which there may be more than were counted.
            asked = max(0.0, noisy + INTERVAL * noise.sigma)
            reach = INTERVAL * math.sqrt(noise.sigma**2 + asked * (1 - rate))
        low, high = math.floor((noisy - reach) / rate), math.ceil((noisy + reach) / rate)
        return Estimate(max(0, round(noisy / rate)), max(0, low), max(0, high))

    def __str__(self) -> str:
        return f"about {self.units:,} ({self.low:,} to {self.high:,})"


@dataclass(frozen=True, slots=True)
class Share:
    """A part of all units that were counted, 0 to 1. Public.

    Attributes:
        part: The estimate.
        low: The true part is at least this and at most ``high``, 90 times in 100 and more: one
            interval for the count and one for the total.
        high: See ``low``.
    """

    part: float
    low: float
    high: float

    @staticmethod
    def of(count: Estimate, total: Estimate) -> Share:
        """The share of a count in a total."""
        if not total.units:
            return Share(0.0, 0.0, 1.0)
        low = count.low / max(1, total.high)
        high = count.high / max(1, total.low)
        return Share(min(1.0, count.units / total.units), min(1.0, low), min(1.0, high))

    def __str__(self) -> str:
        return f"{self.part:.0%} ({self.low:.0%} to {self.high:.0%})"


class AgreedPart(NamedTuple):
    """A key of an answer that enough units gave. Public.

    Attributes:
        text: The key, such as an item of a list.
        estimate: About how many units gave it; None where that was not counted.
    """

    text: str
    estimate: Estimate | None


@dataclass(frozen=True, slots=True)
class PrivateAnswer:
    """A private answer.

    Attributes:
        text: The released text.
        epsilon: The answer as a whole is (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho charged for the answer. Under individual accounting it is a bound that
            holds for every unit (its worst cost per token, up to the answer's budget), not what
            any unit has spent. An answer alone whose keys are selected costs more of it than its
            epsilon says (docs/privacy.md, "Selection"), as nothing is to be added up.
        tokens: Number of released tokens, the end token included.
        stopped_by: Why it ended.
        corpus: Name under which a ledger books it.
        supported: Whether enough documents support it, by a noisy count; None where that was not
            asked, or the answer was closed early or ended by an engine that did not answer.
        from_memory: Whether it was released before, and so costs nothing now.
        recalled: Number of public texts that informed the public row.
        by: How it came about; None where nothing was released.
        agreeing: About how many documents say so, by a noisy count; None where none was taken.
        agreeing_within: That number is nearer than this to the true one, 95 times in 100.
        parts: All items of a list, or words of a reason, that enough units gave, the most frequent
            first, each with its count. One that is just above the threshold is more often counted
            too high than too low. Empty of other answers.
        question: What was asked, in whole words where it followed on others.
        kind: What the question asked for: an answer, or a ``count``, ``tally``, ``survey`` or
            ``summary`` of units; ``person`` where it was about one, and nothing is told.
        numbers: What the text has in words, by name; None of a fact.
        released: What was released, where ``text`` is that in a reader's words (``polish``); it is
            what documents support. None where ``text`` is what was released.
    """

    text: str
    epsilon: float
    delta: float
    rho: float
    tokens: int
    stopped_by: StoppedBy
    corpus: str
    supported: bool | None = None
    from_memory: bool = False
    recalled: int = 0
    by: ReleasedBy | None = None
    agreeing: int | None = None
    agreeing_within: int | None = None
    parts: tuple[AgreedPart, ...] = ()
    released: str | None = None
    question: str = ""
    kind: str = "answer"
    numbers: Mapping[str, Any] | None = None

    def polished(self, polish: Callable[[str], str]) -> PrivateAnswer:
        """The same in other words, with what was released beside them.

        Args:
            polish: From the released text to another; it sees nothing else that is private.
        """
        text = polish(self.text)
        return self if text == self.text else replace(self, text=text, released=self.text)

    def after(self, earlier: Iterable[PrivateAnswer]) -> PrivateAnswer:
        """The same with the cost of the answers that it builds on: their composition."""
        every = (*earlier, self)
        return replace(
            self,
            epsilon=sum(one.epsilon for one in every),
            delta=sum(one.delta for one in every),
            rho=sum(one.rho for one in every),
            tokens=sum(one.tokens for one in every),
            from_memory=all(one.from_memory for one in every),
        )

    def parts_as_dicts(self) -> list[dict[str, Any]]:
        """Its parts, for JSON."""
        return [
            {"text": text, "count": None if count is None else asdict(count)}
            for text, count in self.parts
        ]

    def public_numbers(self) -> dict[str, Any]:
        """Public numbers that may stand beside the text, none of which counts inputs.

        With the question, and ``released`` and ``numbers`` where there are any.
        """
        numbers = {
            "question": self.question,
            "kind": self.kind,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "output_tokens": self.tokens,
            "stopped_by": self.stopped_by,
            "supported": self.supported,
            "from_memory": self.from_memory,
            "by": self.by,
            "agreeing": self.agreeing,
            "agreeing_within": self.agreeing_within,
            "parts": self.parts_as_dicts(),
        }
        beside = {"released": self.released, "numbers": self.numbers}
        return {**numbers, **{name: one for name, one in beside.items() if one is not None}}

    def _repr_html_(self) -> str:
        said = {True: "by the documents", False: "not by the documents", None: "not asked"}
        grounds = "answered before" if self.from_memory else said[self.supported]
        if self.by == "public":
            what = "one person" if self.kind == "person" else "small talk"
            grounds = f"{what}: no document was asked"
        rows = [("supported", grounds)]
        if self.agreeing is not None:
            rows.append(("agreeing", f"about {self.agreeing} (\u00b1{self.agreeing_within})"))
        rows += [(one.text, str(one.estimate or "not counted")) for one in self.parts]
        if self.released is not None:
            rows.append(("released", self.released))
        rows += privacy_rows(self.epsilon, self.delta, self.rho)
        return notebook_table(self.text, [*rows, ("ended by", self.stopped_by)])


@dataclass(frozen=True, slots=True)
class PrivateLabel:
    """A private choice among labels.

    Attributes:
        label: The label drawn, as it was given.
        epsilon: The choice is (epsilon, delta)-DP for every privacy unit.
        delta: Zero, as one draw over labels is purely DP; but for ``votes-gaussian``, and where
            the search for documents was charged too.
        rho: zCDP rho charged for it.
    """

    kind: ClassVar = "label"

    label: str
    epsilon: float
    delta: float
    rho: float

    def _repr_html_(self) -> str:
        return notebook_table(self.label, privacy_rows(self.epsilon, self.delta, self.rho))


class Paid(Protocol):
    """A result with its guarantee and its price."""

    @property
    def epsilon(self) -> float:
        """It is (epsilon, delta)-DP."""
        ...

    @property
    def delta(self) -> float:
        """Delta of its guarantee."""
        ...

    @property
    def rho(self) -> float:
        """Rho of zCDP charged for it."""
        ...


def cost_of(result: Paid) -> dict[str, float]:
    """Its guarantee and its price by name, for JSON."""
    return {"epsilon": result.epsilon, "delta": result.delta, "rho": result.rho}


def notebook_table(text: str, rows: Iterable[tuple[str, str]]) -> str:
    """HTML of a text for a notebook, and of public numbers under it. All are escaped."""
    front = f'<p style="white-space: pre-wrap">{escape(text)}</p>' if text.strip() else ""
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows
    )
    return f"{front}<table>{cells}</table>"


def privacy_rows(epsilon: float, delta: float, rho: float | None) -> list[tuple[str, str]]:
    """Epsilon, delta and, where there is one, rho."""
    rows = [("epsilon", f"{epsilon:g}"), ("delta", f"{delta:g}")]
    return rows if rho is None else [*rows, ("rho", f"{rho:.4g}")]
