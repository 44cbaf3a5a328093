"""What retrievers share that score every vector of a source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

import numpy as np
import numpy.typing as npt

from dpicl_rag import _validate
from dpicl_rag.documents import Document
from dpicl_rag.retrieval.vectors import Snapshot, VectorSource, Where


@dataclass(eq=False, repr=False)
class Scanner:
    """Scores all passages of a source for a question, and fetches those of chosen units.

    Args:
        corpus: Where the vectors are.
        where: Chroma filter on metadata, applied first. Public.
        passages_per_unit: Most passages returned per unit, the best; all if None.
    """

    corpus: VectorSource
    _: KW_ONLY
    where: Where | None = None
    passages_per_unit: int | None = None

    def __post_init__(self) -> None:
        if self.passages_per_unit is not None:
            _validate.count("passages_per_unit", self.passages_per_unit)

    @property
    def corpus_name(self) -> str | None:
        """That of the source."""
        return self.corpus.name

    def scan(self, question: str) -> tuple[Snapshot, npt.NDArray[np.float64]]:
        """The passages, and the cosine of each with a question: float64 ``[n]``. Private."""
        snapshot = self.corpus.snapshot(self.where)
        return snapshot, snapshot.scores(self.corpus.embedder.embed([question], query=True)[0])

    def passages(
        self, snapshot: Snapshot, scores: npt.NDArray[np.float64], units: Iterable[int]
    ) -> list[Document]:
        """Passages of the units with these indices, each unit's best first. Private."""
        documents: list[Document] = []
        for unit in units:
            first, end = snapshot.starts[unit], snapshot.starts[unit + 1]
            # Rows of a unit stand in the order of their ids; a stable sort keeps it for ties.
            best = np.argsort(-scores[first:end], kind="stable")[: self.passages_per_unit]
            documents.extend(
                Document(record.text, record.unit, record.metadata)
                for record in (snapshot.records[row] for row in first + best)
            )
        return documents
