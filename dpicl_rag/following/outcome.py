"""What came of bringing a corpus up to date with a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpicl_rag.corpora.adding import Ingested
from dpicl_rag.corpora.joins import Join
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders.load_report import Skipped


@dataclass(frozen=True, slots=True, repr=False)
class Brought:
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
    """

    source: str
    there: int
    read: int
    known: int
    skipped: Sequence[Skipped]
    passages: int
    deleted: int
    joins: tuple[Join, ...] = ()

    def __repr__(self) -> str:
        return "Brought(<private>)"


class MostGoneError(LoaderError):
    """More than half of what a source held is not there; nothing was deleted.

    Args:
        source: What the owner calls it.
        kept: What was done nevertheless.
    """

    def __init__(self, source: str, kept: str) -> None:
        super().__init__(
            f"{source}: more than half of what was there is gone, as if this were another place or "
            f"one that is not mounted; {kept}. If it is right, add --deletions"
        )


def require_most(gone: int, total: int, *, source: str, allowed: bool, kept: str) -> None:
    """See that a source has not lost more than half of its documents, or may have.

    Raises:
        MostGoneError: It has.
    """
    if 2 * gone > total and not allowed:
        raise MostGoneError(source, kept)


def passages_of(added: Sequence[Ingested]) -> int:
    """Passages that several additions embedded."""
    return sum(one.passages for one in added)
