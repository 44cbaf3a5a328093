"""The base of retrievers that scan a source of vectors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

from dpicl_rag import _validate
from dpicl_rag.documents import Document
from dpicl_rag.retrieval.vectors import Found, VectorSource, Where


@dataclass(eq=False, repr=False)
class Scanner:
    """Finds units of a source near a question, and fetches the passages of chosen ones.

    Args:
        source: Where the vectors are.
        where: Chroma filter on metadata, applied first. Public.
        passages_per_unit: Most passages returned per unit, the best; all if None.
    """

    source: VectorSource
    _: KW_ONLY
    where: Where | None = None
    passages_per_unit: int | None = None

    def __post_init__(self) -> None:
        if self.passages_per_unit is not None:
            _validate.count("passages_per_unit", self.passages_per_unit)

    @property
    def corpus_name(self) -> str | None:
        """That of the source."""
        return self.source.name

    def scan(self, question: str, *, least: float = -math.inf, most: int | None = None) -> Found:
        """Units near a question; see `VectorSource.scan`. Private."""
        vector = self.source.embedder.embed([question], query=True)[0]
        return self.source.scan(vector, least=least, most=most, where=self.where)

    def passages(self, found: Found, units: Iterable[int]) -> list[Document]:
        """Passages of the units with these indices, each unit's best first. Private."""
        return [passage.document for passage in found.passages(units, self.passages_per_unit)]
