"""Opening a corpus of ours by its name, or a Chroma collection by its address."""

from __future__ import annotations

from pathlib import Path

from dpicl_rag.corpora.corpus import Corpus
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.stores.chroma import ChromaCollection, CollectionAddress


def open_corpus(
    name: str, path: str | Path | None = None, *, embedder: Embedder | None = None
) -> Corpus | ChromaCollection:
    """Open a corpus by its name, or a Chroma collection by its address.

    Args:
        name: A name, or ``chroma:FOLDER-OR-URL#COLLECTION``; see `CollectionAddress`.
        path: Folder of the corpora; the user's data folder if None.
        embedder: What it was filled with; the packaged model if None.

    Raises:
        CorpusError: There is none, or it cannot be opened.
    """
    if CollectionAddress.of(name) is not None:
        return ChromaCollection.open(name, embedder=embedder)
    return Corpus.open(name, path, embedder=embedder)
