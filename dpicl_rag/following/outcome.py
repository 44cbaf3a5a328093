"""Outcomes of bringing a corpus up to date with a source, and deletions that wait for the owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpicl_rag._unobserved import Private
from dpicl_rag.corpora.holdings import Followed
from dpicl_rag.corpora.joins import Join
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders.records import Skipped


@dataclass(frozen=True, slots=True, repr=False)
class Brought(Private):
    """One source, brought up to date. For the owner of the documents: the counts are private.

    Attributes:
        source: What the owner calls it.
        there: Messages, rows or files that are there now.
        read: Of these, those that were read.
        known: Of these, those that were known and not read, also by another name or in another
            folder.
        skipped: Of those that were read, those without a document.
        passages: Passages newly embedded and stored.
        deleted: Documents that are in no source any more, and so not in the corpus.
        joins: Units that were there and are one now.
        withheld: What documents would have made one that were not stored; see `Ingested`.
    """

    source: str
    there: int
    read: int
    known: int
    skipped: Sequence[Skipped]
    passages: int
    deleted: int
    joins: tuple[Join, ...] = ()
    withheld: tuple[Join, ...] = ()


class MostGoneError(LoaderError):
    """More than half of what a source held is not there; what is new was read, nothing deleted."""

    def __init__(self, source: str) -> None:
        super().__init__(
            f"{source}: more than half of what was there is gone, or all that one of its paths "
            "held, as if this were another place or one that is not mounted; what is new was read, "
            "and nothing was deleted. If it is right, add --deletions"
        )


def delete_gone(
    followed: Followed,
    source: str,
    name: str,
    gone: Collection[str],
    *,
    most: bool,
    allowed: bool,
    before_deleting: Callable[[set[str]], None],
) -> int:
    """Delete what is gone of a source; once it may not be, that holds until it is allowed.

    Args:
        followed: Sources of the corpus.
        source: Which of them.
        name: What the owner calls it.
        gone: Places where nothing stands any more.
        most: Whether most of the source is gone.
        allowed: Whether the owner said that it may be.
        before_deleting: Called before anything is deleted, with the units that lose something.

    Returns:
        How many documents were deleted.

    Raises:
        MostGoneError: It may not be.
    """
    held_up = bool(gone) and not allowed and (most or followed.is_held_up(source))
    followed.hold_up(source, on=held_up)
    if held_up:
        raise MostGoneError(name)
    if not gone:
        return 0
    before_deleting(followed.units_at(gone))
    return followed.release(gone)


def most_is_gone(whose: Mapping[str, tuple[str, str]], left: Collection[str]) -> bool:
    """Test for a source that has lost more than half of its units, and of its senders.

    Each counts once, by the share of its documents that is gone: so no unit decides by how much it
    is, and no sender by how many units he has made.

    Args:
        whose: By each document that the source held, its unit and its sender.
        left: Documents that it holds still.
    """
    return all(
        _are_most((owners[which], document not in left) for document, owners in whose.items())
        for which in (0, 1)
    )


def _are_most(gone: Iterable[tuple[str, bool]]) -> bool:
    owned: defaultdict[str, list[bool]] = defaultdict(list)
    for owner, is_gone in gone:
        owned[owner].append(is_gone)
    return 2 * sum(Fraction(sum(lost), len(lost)) for lost in owned.values()) > len(owned)
