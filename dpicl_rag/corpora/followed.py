"""The sources that a corpus follows, for whoever brings it up to date."""

from __future__ import annotations

from collections.abc import Iterable

from dpicl_rag.corpora.holdings import Holding, Holdings, StoredSource
from dpicl_rag.corpora.storage import Storage


class Followed:
    """Sources of a corpus, each call a transaction of its own. For the owner; private.

    Args:
        storage: The files of the corpus.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __repr__(self) -> str:
        return "Followed(<private>)"

    def sources(self) -> list[StoredSource]:
        """The sources.

        Raises:
            CorpusError: The corpus cannot be read.
        """
        return self._storage.read(lambda c: Holdings(c).sources())

    def held(self, source: str) -> list[Holding]:
        """What a source held when it was last read."""
        return self._storage.read(lambda c: list(Holdings(c).of_source(source)))

    def is_held_up(self, source: str) -> bool:
        """Whether what is gone of a source waits for a word of the owner."""
        return self._storage.read(lambda c: Holdings(c).is_held_up(source))

    def hold_up(self, source: str, *, on: bool) -> None:
        """Let what is gone of a source wait for a word of the owner, or wait no more."""
        if on != self.is_held_up(source):
            self._storage.write(lambda c: Holdings(c).hold_up(source, on=on))

    def whose(self, source: str) -> dict[str, tuple[str, str]]:
        """By each document that a source held, its unit and its sender, which may be the unit."""
        return self._storage.read(lambda c: Holdings(c).whose(source))

    def forgotten(self, source: str) -> set[str]:
        """Places of a source whose documents the owner had forgotten, though they are there."""
        return self._storage.read(lambda c: Holdings(c).forgotten(source))

    def units_at(self, ids: Iterable[str]) -> set[str]:
        """Units of the documents at places."""
        ids = list(ids)
        return self._storage.read(lambda c: Holdings(c).units_at(ids))

    def follow(self, source: StoredSource) -> None:
        """Follow a source, or note that it is read in another way."""
        self._storage.write(lambda c: Holdings(c).follow(source))

    def leave(self, source: str) -> None:
        """Follow a source no more; its documents stay."""
        self._storage.write(lambda c: Holdings(c).leave(source))

    def note(self, holdings: Iterable[Holding]) -> None:
        """Note what stands at places, where its document is there."""
        self._storage.write(lambda c: Holdings(c).note(holdings))

    def release(self, ids: Iterable[str]) -> int:
        """Nothing stands at places any more: delete what stands nowhere else.

        Returns:
            How many documents were deleted.
        """
        count = self._storage.write(lambda c: Holdings(c).release(ids))
        self._storage.flush()
        return count
