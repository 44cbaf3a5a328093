"""Stores that users have, as sources of vectors that are searched exactly.

Each is given where a corpus may stand. Names are imported when first used, so that none of them
asks for a store's own package before it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpicl_rag._packaged import importing

if TYPE_CHECKING:
    from dpicl_rag.stores.cached_vectors import InMemoryVectors
    from dpicl_rag.stores.chroma import ChromaCollection, CollectionAddress
    from dpicl_rag.stores.exact_store import ExactStore
    from dpicl_rag.stores.faiss import FaissVectors
    from dpicl_rag.stores.pg_statements import Table
    from dpicl_rag.stores.pgvector import PgVectors
    from dpicl_rag.stores.qdrant import QdrantVectors

__getattr__, __dir__ = importing(__name__)

__all__ = [
    "ChromaCollection",
    "CollectionAddress",
    "ExactStore",
    "FaissVectors",
    "InMemoryVectors",
    "PgVectors",
    "QdrantVectors",
    "Table",
]
