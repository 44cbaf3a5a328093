"""An index of Chroma's that is made anew, from what else is known of its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpicl_rag.corpora.passages import Record
from dpicl_rag.corpora.register import pages
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.tables import Row, Tables
from dpicl_rag.retrieval.vector_file import DamagedError, Mapped
from dpicl_rag.retrieval.vectors import on_grid

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

_PAGE = 5000


def fill(
    collection: Collection,
    tables: Tables,
    kept: Mapped | None,
    embedder: Embedder,
    each: Callable[[], None],
) -> None:
    """Give an empty index the vectors of all records that the tables hold.

    Args:
        collection: Whose index was removed.
        tables: Of the collection.
        kept: Vectors that are known; a record that is not among them is embedded again.
        embedder: What the corpus is embedded with.
        each: Called before each write.
    """
    collection.get(limit=1, include=[])  # takes in the log
    listing = tables.listing()
    if listing is None:
        return
    places = {} if kept is None else _places(kept)
    numbers, _ = tables.stamps(listing)
    for page in pages(numbers.tolist(), _PAGE):
        rows = list(tables.rows(listing, page))
        vectors: dict[str, npt.NDArray[np.float32]] = {}
        for row in rows:
            place = places.get((row.number, row.stamp))
            if kept is not None and place is not None:
                vectors[row.id] = kept.vectors[place, : kept.dimensions]
        lost = [row for row in rows if row.id not in vectors]
        if lost:
            embedded = on_grid(embedder.embed([_text(row) for row in lost]))
            vectors.update(zip((row.id for row in lost), embedded, strict=True))
        each()
        collection.upsert(list(vectors), embeddings=np.stack(list(vectors.values())))


def _places(kept: Mapped) -> dict[tuple[int, int], int]:
    """Rows by the number of their record and the write that they are from."""
    try:
        kept.require_all_sound()
    except DamagedError:
        return {}
    stamped = zip(kept.number.tolist(), kept.stamp.tolist(), strict=True)
    return {key: row for row, key in enumerate(stamped)}


def _text(row: Row) -> str:
    return row.record.text if isinstance(row.record, Record) else ""
