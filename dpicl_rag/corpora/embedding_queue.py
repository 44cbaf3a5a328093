"""Documents that are embedded and wait to be stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dpicl_rag.corpora.contents import Embedded
from dpicl_rag.corpora.passages import CutDocument
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.vectors import on_grid

Parts = dict[bytes, list[npt.NDArray[np.float32]]]
"""Vectors of documents that are not whole yet, by their digests."""

_BATCH = 64  # passages embedded at a time
_MOST = 20_000  # passages that wait: 31 MB at 384 dimensions
_LEAST_S = 2.0  # between two transactions


class EmbeddingQueue:
    """Embeds documents in batches, and stores them together: a transaction waits for the disk.

    A unit's documents are stored in one transaction, as far as they come one after the other and
    are not more than may wait. What a kill loses is embedded again.

    Args:
        embedder: The model.
        store: Stores documents with their vectors.
        on_passages: Called with how many passages were embedded since the last call.
    """

    def __init__(
        self,
        embedder: Embedder,
        store: Callable[[Iterable[Embedded]], None],
        on_passages: Callable[[int], None],
    ) -> None:
        self._embedder = embedder
        self._store = store
        self._on_passages = on_passages
        self._whole: list[Embedded] = []  # every passage is embedded
        self._waiting = 0
        self._next = time.monotonic() + _LEAST_S

    def run(self, documents: Sequence[CutDocument]) -> None:
        """Embed and store all of them; what is whole is stored whatever comes between."""
        try:
            batch: list[tuple[CutDocument, str]] = []
            done: Parts = {}
            for document in documents:
                for text in document.texts:
                    batch.append((document, text))
                    if len(batch) == _BATCH:
                        self._embed(batch, done)
                        batch = []
            self._embed(batch, done)
        finally:
            self._flush(self._whole)

    def _embed(
        self, batch: list[tuple[CutDocument, str]], done: dict[bytes, list[np.ndarray]]
    ) -> None:
        if not batch:
            return
        vectors = on_grid(self._embedder.embed([text for _, text in batch]))
        for (document, _), vector in zip(batch, vectors, strict=True):
            own = done.setdefault(document.digest, [])
            own.append(vector)
            if len(own) == len(document.texts):
                self._whole.append((document, np.stack(done.pop(document.digest))))
        self._waiting += len(batch)
        self._on_passages(len(batch))
        if self._waiting >= _MOST or time.monotonic() >= self._next:
            # The last unit may have more documents to come.
            last = self._whole[-1][0].unit if self._whole else None
            ready = [one for one in self._whole if one[0].unit != last]
            self._flush(ready if ready and self._waiting < 2 * _MOST else self._whole)

    def _flush(self, ready: list[Embedded]) -> None:
        # Taken out first: what the store refused is not tried again on the way out.
        taken = {document.digest for document, _ in ready}
        self._whole = [one for one in self._whole if one[0].digest not in taken]
        self._waiting = sum(len(vectors) for _, vectors in self._whole)
        if ready:
            self._store(ready)
        self._next = time.monotonic() + _LEAST_S
