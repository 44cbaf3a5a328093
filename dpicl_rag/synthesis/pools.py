"""Pools of labelled private examples by unit: fresh secret samples of them, and how units pay.

Charges of texts are alike for all units of a label, or each unit pays for what it reveals. Labels
cost a unit in parallel if it has one label, and add up otherwise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

import torch

from dpicl_rag import _validate
from dpicl_rag.documents import text_unit, unit_of
from dpicl_rag.errors import ConfigurationError, DPICLError
from dpicl_rag.language_models.base import GrowingRows, Input
from dpicl_rag.ledger import Account
from dpicl_rag.mechanisms.discrete_noise import rounded_up
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter, privacy_filter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.synthesis.key_words import batch_of, coin_of
from dpicl_rag.synthesis.synthesis_run import Drawn

Pool = dict[str, tuple[str, ...]]
"""Texts of each unit of one label. Private."""


@dataclass(frozen=True, slots=True, repr=False)
class LabelledDocument:
    """A private text with its label, and the privacy unit it belongs to.

    Attributes:
        text: The text.
        label: One of the public labels; with any other it is ignored.
        unit: Identifier of the privacy unit; None makes the text a unit of its own.
    """

    text: str
    label: str
    unit: str | None = None

    def __repr__(self) -> str:
        return "LabelledDocument(<private>)"


def pools(
    examples: Iterable[LabelledDocument], labels: Sequence[str], labels_per_unit: int
) -> dict[str, Pool]:
    """Units by label. What a unit has in a pool follows from the unit alone.

    A label outside the list, what is no text, and what belongs to nobody that can be named are
    left out in silence: an error that one unit can cause would tell that it is there. A unit with
    more labels than ``labels_per_unit`` keeps its first ones in the public order.

    Args:
        examples: Private.
        labels: The public list.
        labels_per_unit: How many pools a unit may be in.

    Raises:
        ConfigurationError: ``examples`` holds something of another kind.
    """
    places = {label: place for place, label in enumerate(labels)}
    seen: Counter[str] = Counter()
    units: dict[str, dict[int, list[str]]] = {}
    for example in examples:
        if not isinstance(example, LabelledDocument):
            raise ConfigurationError("examples must be LabelledDocument objects")
        readable = isinstance(example.text, str) and isinstance(example.label, str)
        if not readable or example.label not in places:
            continue
        unit = _unit_of(example, seen)
        text = " ".join(example.text.split())  # a text ends at its line's end
        if text and unit is not None:
            units.setdefault(unit, {}).setdefault(places[example.label], []).append(text)
    found: dict[str, Pool] = {label: {} for label in labels}
    for unit, own in units.items():
        for place in sorted(own)[:labels_per_unit]:
            found[labels[place]][unit] = tuple(own[place])
    return found


def _unit_of(example: LabelledDocument, seen: Counter[str]) -> str | None:
    """The name of a unit; None where it has none."""
    if example.unit is None:
        return text_unit(example.text, seen)
    return unit_of(example.unit, {}, "document")


def public_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels, if they are a public list.

    Raises:
        ConfigurationError: There is none, it is no list, or a label is empty or stands twice.
    """
    named = isinstance(labels, Sequence) and not isinstance(labels, str)
    names = tuple(labels) if named else ()
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise ConfigurationError(
            "give the labels as a public list of names; labels read from the examples would be "
            "released as they are"
        )
    if len(set(names)) < len(names):
        raise ConfigurationError("a label stands twice in the list")
    return names


def public_rate(rate: object) -> float | None:
    """The rate, if it is a number that was fixed beforehand.

    Raises:
        ConfigurationError: It is not.
    """
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise ConfigurationError(
            "rate is a public number fixed beforehand, above 0 and at most 1; computed from the "
            "examples it would tell how many there are"
        )
    return _validate.rate("rate", rate)


Members = list[tuple[str, ...]]
"""Texts of each expert. Private."""

Sampler = Callable[[Pool, Randomness], Members]
"""Tosses fresh coins and gives what each expert reads."""


class FreshSampleRows:
    """Rows whose every step is read from a sample of its own.

    The model keeps keys and values of documents it has read, so only the text that was drawn is
    read anew; see `PrefixCache`.

    Args:
        sample: Draws what the experts read; called once for every step.
        read: Reads a prompt's rows.
    """

    def __init__(
        self, sample: Callable[[], list[Input]], read: Callable[[list[Input]], GrowingRows]
    ) -> None:
        self._sample = sample
        self._read = read
        self._tokens: list[int] = []

    def __repr__(self) -> str:
        return "FreshSampleRows()"

    def extend(self, token_ids: Sequence[int]) -> Step:
        """The step behind more tokens, read from a new sample."""
        self._tokens += token_ids
        return self._read(self._sample()).extend(self._tokens)


def poisson(rate: float, groups: int | None) -> Sampler:
    """Each unit joins by its own coin; then each has an expert, or joins a group by another coin.

    Stability: ``DIRECT``, or ``RANDOM_GROUPS``.

    Args:
        rate: Probability of joining. Public.
        groups: How many groups; None makes one expert for each unit.
    """

    def draw(pool: Pool, randomness: Randomness) -> Members:
        joined = [texts for texts in pool.values() if randomness.uniform() < rate]
        return joined if groups is None else _grouped(joined, groups, randomness)

    return draw


def fixed_size(size: int, rate: float, groups: int | None) -> Sampler:
    """A sample of public size from the pool's places, for replaced units.

    A pool of fewer than ``size / rate`` units has empty places beside them, where nobody speaks:
    so a sample never takes more than its public share of them, and the pool's size, which a unit
    of another label changes, is no matter. Taking a unit away empties its place; where there are
    more units than places, the one that takes the last place stands for it. Either way the
    sample changes in one place, with probability ``rate`` at most.

    Args:
        size: Places in a sample. Public.
        rate: Largest share of a pool that is sampled. Public.
        groups: How many groups of equal size; None makes one expert for each place.
    """

    def draw(pool: Pool, randomness: Randomness) -> Members:
        places: list[tuple[str, ...]] = list(pool.values())
        places += [()] * (math.ceil(size / rate) - len(places))
        for at in range(size):  # the first steps of a Fisher-Yates shuffle
            other = at + randomness.below(len(places) - at)
            places[at], places[other] = places[other], places[at]
        taken = places[:size]
        if groups is None:
            return [texts for texts in taken if texts]
        return [
            tuple(text for texts in taken[group::groups] for text in texts)
            for group in range(groups)
        ]

    return draw


def _grouped(joined: Members, groups: int, randomness: Randomness) -> Members:
    members: list[list[str]] = [[] for _ in range(groups)]
    for texts in joined:
        members[randomness.below(groups)] += texts
    return [tuple(texts) for texts in members]


class LabelCharge:
    """Counts the tokens of every label. A unit pays for the ``pools`` labels that have the most.

    Args:
        labels: In the order in which their texts are written.
        texts: Of a label.
        max_tokens: Most tokens of a text.
        begun: Texts that were begun before, by number.
        pools: How many labels' pools one unit, or its replacement, changes.
        token_rho: zCDP rho of a token for a unit of its pool; None where samples have none.
        in_ledger: Whether a ledger pays.

    Attributes:
        left: Rho that texts which were not begun may still cost a unit, at most.
        lost: Rho of what kills may have taken: a token that nobody saw for each text they ended.
        account: Is charged for every token, once it is open.
    """

    def __init__(
        self,
        labels: Sequence[str],
        texts: int,
        max_tokens: int,
        begun: Mapping[int, Drawn],
        *,
        pools: int,
        token_rho: float | None,
        in_ledger: bool,
    ) -> None:
        self._in_ledger = in_ledger
        self._pools = pools
        self._token_rho = token_rho
        self._tokens = dict.fromkeys(labels, 0)
        whole = dict.fromkeys(labels, texts * max_tokens)
        for number, drawn in begun.items():
            label = labels[number % len(labels)]
            self._tokens[label] += len(drawn.tokens)
            whole[label] += len(drawn.tokens) - max_tokens
        self._paid = self._owed()
        interrupted = sum(drawn.stopped_by == "interrupted" for drawn in begun.values())
        self.left = rounded_up(Fraction(token_rho or 0.0) * (self._most(whole) - self._paid))
        self.lost = interrupted * (token_rho or 0.0)
        self.account: Account | None = None

    def can_pay(self, label: str) -> bool:
        """True where the ledger's hold covers a token of a label: after a kill it may lack one."""
        grown = {**self._tokens, label: self._tokens[label] + 1}
        more = self._most(grown) - self._paid
        if not (more and self._in_ledger):
            return True
        left = None if self.account is None else self.account.remaining
        return (left or 0.0) >= more * (self._token_rho or 0.0)

    def pay(self, label: str) -> None:
        """Charge a token of a label, durably. Call it before the draw."""
        self._tokens[label] += 1
        more, self._paid = self._owed() - self._paid, self._owed()
        if more and self.account is not None:
            self.account.pay(self._token_rho or 0.0)

    @property
    def rho(self) -> float:
        """Rho of zCDP charged so far to any one unit at most. Public."""
        return rounded_up(Fraction(self._token_rho or 0.0) * self._paid)

    def _owed(self) -> int:
        return self._most(self._tokens)

    def _most(self, tokens: Mapping[str, int]) -> int:
        return sum(sorted(tokens.values(), reverse=True)[: self._pools])


class TextFilter:
    """Pays for the tokens of one text: a ``PrivacyFilter``.

    Args:
        charge: Of all labels.
        label: That of the text.
        tokens: Most of the text.
    """

    def __init__(self, charge: LabelCharge, label: str, tokens: int) -> None:
        self._charge = charge
        self._label = label
        self._left = tokens

    def __repr__(self) -> str:
        return "TextFilter()"

    @property
    def rho(self) -> float:
        """Rho of zCDP charged so far to any one unit at most, for all labels. Public."""
        return self._charge.rho

    def can_pay(self) -> bool:
        """True where the plan has another token, and the ledger pays for it."""
        return self._left > 0 and self._charge.can_pay(self._label)

    def weigh(self, ranges: Callable[[], torch.Tensor]) -> torch.Tensor | None:
        """None: every expert counts in full."""
        return None

    def pay(self) -> None:
        """Charge one token.

        Raises:
            DPICLError: The plan has none left; nothing may be released.
        """
        if not self.can_pay():
            raise DPICLError("internal error: a charge passed its budget; nothing was released")
        self._left -= 1
        self._charge.pay(self._label)

    def pay_aside(self, rho: float, counted: torch.Tensor) -> NoReturn:
        """Nothing is set aside.

        Raises:
            DPICLError: Always.
        """
        raise DPICLError("internal error: nothing was set aside; nothing was released")


@dataclass(frozen=True, slots=True, repr=False)
class Batches:
    """Units that write each text, and how they pay. Private.

    A unit's batch follows from a key of the run and from the unit alone, so another unit's arrival
    moves none, and a run that goes on has the same ones. A unit is in one text of each of its
    labels, and may spend an equal share of the budget in each.

    Attributes:
        pools: Units by label.
        texts: Texts of a label.
        rate: Probability with which a unit takes part at all; None lets all of them.
        rho: zCDP rho of the whole run, for every unit. Public.
        labels_per_unit: Labels that a unit has at most. Public.
        worst: zCDP rho of a token at its worst. Public.
        key: Secret of the run.
        account: Opened for `units_of` the pools.
    """

    pools: Mapping[str, Pool]
    texts: int
    rate: float | None
    rho: float
    labels_per_unit: int
    worst: float
    key: bytes
    account: Account

    def __repr__(self) -> str:
        return "Batches(<private>)"

    def members(self, label: str, text: int) -> Pool:
        """The units that write a text, with what each of them has."""
        pool = self.pools[label]
        return {unit: own for unit, own in pool.items() if self._joins(unit, label, text)}

    def filter(self, units: Sequence[str]) -> PrivacyFilter:
        """The filter by which the experts of a text pay.

        Args:
            units: The unit of each expert.
        """
        places = {unit: place for place, unit in enumerate(units_of(self.pools))}
        most = self.rho / self.labels_per_unit
        return privacy_filter(self.account, [places[unit] for unit in units], self.worst, most=most)

    def _joins(self, unit: str, label: str, text: int) -> bool:
        if batch_of(self.key, unit, label, self.texts) != text:
            return False
        return coin_of(self.key, unit, b"takes part ") * 2.0**-256 < (self.rate or 1.0)


def units_of(pools: Mapping[str, Pool]) -> list[str]:
    """All units, each once. Private."""
    return list(dict.fromkeys(unit for pool in pools.values() for unit in pool))
