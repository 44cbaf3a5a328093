"""Vectors that another framework keeps in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import (
    Defect,
    StoredRecord,
    comparable,
    find_defects,
    vector_length,
)
from dpicl_rag.retrieval.vectors import NearUnits, Snapshot, Where


@dataclass(frozen=True, repr=False)
class InMemoryVectors:
    """A `VectorSource` over a store that is read anew for each search.

    Attributes:
        embedder: The model that the store was filled with.
        read: Returns every record that the store holds now, with its vector; see `record_of`.
    """

    name: ClassVar[None] = None

    embedder: Embedder
    read: Callable[[], Iterable[tuple[StoredRecord | Defect, Sequence[float]]]]

    def __repr__(self) -> str:
        return "InMemoryVectors(<private>)"

    def scan(
        self,
        question: npt.ArrayLike,
        *,
        least: float = -math.inf,
        most: int | None = None,
        where: Where | None = None,
    ) -> NearUnits:
        """See `VectorSource.scan`.

        Raises:
            ConfigurationError: There is a filter.
        """
        if where is not None:
            raise ConfigurationError("where needs a Chroma collection; keep the documents in one")
        rows = [
            (record, vector) for record, vector in self.read() if isinstance(record, StoredRecord)
        ]
        vectors = np.zeros((len(rows), self._length))
        for place, (_, vector) in enumerate(rows):
            row = comparable(vector, self._length)
            if row is not None:
                vectors[place] = row
        return Snapshot([record for record, _ in rows], vectors).scan(question, least, most)

    def check(self) -> list[Defect]:
        """Records that questions do not find, and why. For the owner: the list is private."""
        return find_defects(self.read(), self.embedder)

    @cached_property
    def _length(self) -> int:
        return vector_length(self.embedder)
