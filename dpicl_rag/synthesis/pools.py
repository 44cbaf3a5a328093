"""Labelled private examples, and the pool of units that each label has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpicl_rag import _validate
from dpicl_rag.documents import text_unit, unit_of
from dpicl_rag.errors import ConfigurationError

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
