"""Retrieval by exact scores, with a stated stability (privacy.md, section 2)."""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from dpicl_rag.accounting.stability import Stability
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.corpus import Where
from dpicl_rag.retrieval.vectors import Snapshot


class VectorSource(Protocol):
    """Where a retriever reads all vectors; `Corpus` is one."""

    def embed_question(self, question: str) -> npt.NDArray[np.float32]:
        """Embedding of a question, shape ``[d]``."""
        ...

    def snapshot(self, where: Where | None = None) -> Snapshot:
        """All passages that pass a public filter."""
        ...


class ThresholdRetriever:
    """Every unit with a passage whose cosine with the question reaches a public threshold.

    A unit is kept or dropped by its own passages alone, so its arrival adds one unit and changes
    none: ``Stability(1, 0)``, the condition of individual accounting.

    Args:
        corpus: Where the vectors are.
        threshold: Least cosine, from -1 to 1. Choose it without looking at the corpus.
        where: Chroma filter on metadata, applied first. Public.
        passages_per_unit: Most passages returned per unit, the best; all if None.

    Raises:
        ConfigurationError: A parameter is out of range.
    """

    stability = Stability(added=1, changed=0)

    def __init__(
        self,
        corpus: VectorSource,
        threshold: float = 0.5,
        *,
        where: Where | None = None,
        passages_per_unit: int | None = None,
    ) -> None:
        if not -1 <= threshold <= 1:
            raise ConfigurationError("threshold must be between -1 and 1")
        _check_count("passages_per_unit", passages_per_unit)
        self.corpus = corpus
        self.threshold = threshold
        self.where = where
        self.passages_per_unit = passages_per_unit

    def __repr__(self) -> str:
        return f"ThresholdRetriever({self.corpus!r}, threshold={self.threshold})"

    def retrieve(self, question: str) -> list[Document]:
        """Return passages; see `Retriever.retrieve`."""
        snapshot, scores = _score(self.corpus, question, self.where)
        kept = np.flatnonzero(snapshot.unit_scores(scores) >= self.threshold)
        return _passages(snapshot, scores, kept, self.passages_per_unit)


class TopKRetriever:
    """The k units whose best passages are closest to the question; ties fall by `unit_key`.

    A newcomer displaces at most one unit: ``Stability(0, 1)``, twice the charge of a threshold,
    and individual accounting does not apply.

    Args:
        corpus: Where the vectors are.
        k: Most units returned.
        where: Chroma filter on metadata, applied first. Public.
        passages_per_unit: Most passages returned per unit, the best; all if None.

    Raises:
        ConfigurationError: A parameter is out of range.
    """

    stability = Stability(added=0, changed=1)

    def __init__(
        self,
        corpus: VectorSource,
        k: int,
        *,
        where: Where | None = None,
        passages_per_unit: int | None = None,
    ) -> None:
        _check_count("k", k)
        _check_count("passages_per_unit", passages_per_unit)
        self.corpus = corpus
        self.k = k
        self.where = where
        self.passages_per_unit = passages_per_unit

    def __repr__(self) -> str:
        return f"TopKRetriever({self.corpus!r}, k={self.k})"

    def retrieve(self, question: str) -> list[Document]:
        """Return passages; see `Retriever.retrieve`."""
        snapshot, scores = _score(self.corpus, question, self.where)
        # A snapshot's units stand in the order of `unit_key`, which a stable sort keeps for ties.
        best = np.argsort(-snapshot.unit_scores(scores), kind="stable")[: self.k]
        return _passages(snapshot, scores, np.sort(best), self.passages_per_unit)


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
        "for all others, and no charge covers that. Hand over the collection instead "
        "(Corpus.from_collection): its vectors are read and scanned exactly"
    )


def _check_count(name: str, value: int | None) -> None:
    if value is not None and (not isinstance(value, int) or value < 1):
        raise ConfigurationError(f"{name} must be a whole number, at least 1")


def _score(
    corpus: VectorSource, question: str, where: Where | None
) -> tuple[Snapshot, npt.NDArray[np.float64]]:
    snapshot = corpus.snapshot(where)
    return snapshot, snapshot.scores(corpus.embed_question(question))


def _passages(
    snapshot: Snapshot,
    scores: npt.NDArray[np.float64],
    units: npt.NDArray[np.intp],
    limit: int | None,
) -> list[Document]:
    """Passages of the units with these indices, each unit's best first."""
    documents: list[Document] = []
    for unit in units:
        first, end = snapshot.starts[unit], snapshot.starts[unit + 1]
        # Rows of a unit stand in the order of their ids; a stable sort keeps it for ties.
        rows = first + np.argsort(-scores[first:end], kind="stable")[:limit]
        documents.extend(
            Document(record.text, record.unit, record.metadata)
            for record in (snapshot.records[row] for row in rows)
        )
    return documents
