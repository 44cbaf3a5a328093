"""Retrieval by exact scores, with a stated stability (docs/privacy.md, "How a token is drawn")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from dpicl_rag import _validate
from dpicl_rag.accounting import Stability
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.base import ExactRetriever
from dpicl_rag.retrieval.scanner import Scanner

THRESHOLD = 0.5
"""Least cosine where none is named: chosen without a corpus, for sentence embeddings."""


@dataclass(eq=False, repr=False)
class ThresholdRetriever(Scanner, ExactRetriever):
    """Every unit with a passage whose cosine with the question reaches a public threshold.

    A unit is kept or dropped by its own passages alone, so its arrival adds one unit and changes
    none: ``Stability(1, 0)``, the condition of individual accounting.

    Args:
        source: Where the vectors are.
        threshold: Least cosine, from -1 to 1. Choose it without looking at the corpus.
        where: Chroma filter on metadata, applied first. Public.
        passages_per_unit: Most passages returned per unit, the best; all if None.

    Raises:
        ConfigurationError: A parameter is out of range.
    """

    stability = Stability(added=1, changed=0)

    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.cosine("threshold", self.threshold)

    def __repr__(self) -> str:
        return f"ThresholdRetriever({self.source!r}, threshold={self.threshold})"

    def retrieve(self, question: str) -> list[Document]:
        """Return passages; see `ExactRetriever.retrieve`."""
        found = self.scan(question, least=self.threshold)
        return self.passages(found, np.flatnonzero(found.scores >= self.threshold).tolist())


@dataclass(eq=False, repr=False)
class TopKRetriever(Scanner, ExactRetriever):
    """The units whose best passages are closest to the question; ties fall by `unit_key`.

    A newcomer displaces at most one unit: ``Stability(0, 1)``, twice the charge of a threshold,
    and individual accounting does not apply.

    Args:
        source: Where the vectors are.
        units: Most units returned.
        where: Chroma filter on metadata, applied first. Public.
        passages_per_unit: Most passages returned per unit, the best; all if None.

    Raises:
        ConfigurationError: A parameter is out of range.
    """

    stability = Stability(added=0, changed=1)

    units: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.count("units", self.units)

    def __repr__(self) -> str:
        return f"TopKRetriever({self.source!r}, units={self.units})"

    def retrieve(self, question: str) -> list[Document]:
        """Return passages; see `ExactRetriever.retrieve`."""
        found = self.scan(question, most=self.units)
        # Units stand in the order of `unit_key`, which a stable sort keeps for ties.
        best = np.argsort(-found.scores, kind="stable")[: self.units]
        return self.passages(found, np.sort(best).tolist())


def refuse_approximate(source: str) -> NoReturn:
    """Refuse a search whose results are approximate or already cut to the best n.

    Args:
        source: Public name of what was offered, such as its class.

    Raises:
        ConfigurationError: Always.
    """
    raise ConfigurationError(
        f"{source} cannot be used inside the privacy guarantee: a vector store's own search is "
        "approximate (HNSW and the like), so the arrival of one document can reroute the search "
        "for all others, and no charge covers that. Stores over Chroma, pgvector, Qdrant and flat "
        "FAISS are searched exactly; of these hand over the store itself, or a Chroma collection "
        "by Corpus.from_collection"
    )
