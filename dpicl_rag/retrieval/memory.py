"""Vectors that another framework keeps in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.passages import Record
from dpicl_rag.retrieval.vectors import Snapshot, Where


@dataclass(frozen=True, slots=True, repr=False)
class InMemoryVectors:
    """A `VectorSource` over a store that is read anew for each search.

    Attributes:
        embedder: The model that the store was filled with.
        read: Returns every record that the store holds now, with its vector.
    """

    name: ClassVar[None] = None

    embedder: Embedder
    read: Callable[[], Iterable[tuple[Record, Sequence[float]]]]

    def __repr__(self) -> str:
        return "InMemoryVectors(<private>)"

    def snapshot(self, where: Where | None = None) -> Snapshot:
        """All records as they are now.

        Raises:
            ConfigurationError: There is a filter.
            CorpusError: The vectors are not all of one length.
        """
        if where is not None:
            raise ConfigurationError("where needs a Chroma collection; keep the documents in one")
        rows = list(self.read())
        return Snapshot([record for record, _ in rows], [vector for _, vector in rows])
