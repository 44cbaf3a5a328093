"""Pools of labelled private examples by unit, and fresh secret samples of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dpicl_rag import _validate
from dpicl_rag.documents import text_unit, unit_of
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import GrowingRows, Input
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step

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
