"""Where corpora and the ledger are kept, and how commands open them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_data_path

if TYPE_CHECKING:
    from dpicl_rag.embeddings import Embedder
    from dpicl_rag.ledger import Ledger
    from dpicl_rag.retrieval import Corpus


def default_ledger() -> Path:
    """The ledger's file if none is named.

    It does not follow ``--path``: a budget must hold however the corpus was reached. Two stores
    with a corpus of the same name share its budget unless each is given a ledger.
    """
    return user_data_path("dpicl-rag", appauthor=False) / "ledger.sqlite"


def prefix_folder(corpus: str, path: Path | None) -> Path:
    """Where `ingest --warm` keeps what the model has read of a corpus."""
    from dpicl_rag.retrieval.store import default_path

    store = path or default_path()
    return store.with_name(f"{store.name}-read") / corpus


def forget_prefixes(corpus: str, path: Path | None) -> None:
    """Delete what the model has read of a corpus."""
    shutil.rmtree(prefix_folder(corpus, path), ignore_errors=True)


@contextmanager
def open_ledger(path: Path | None) -> Iterator[Ledger]:
    """Open a ledger; what is still held when the block ends is given back."""
    from dpicl_rag.ledger import Ledger

    with Ledger(path or default_ledger()) as ledger:
        yield ledger


def load_embedder(model: str | None) -> Embedder:
    """The embedding model by name; loaded at first use."""
    from dpicl_rag.embeddings import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(model)


@contextmanager
def open_corpus(name: str, path: Path | None, embedder: str | None) -> Iterator[Corpus]:
    """Open an existing corpus."""
    from dpicl_rag.retrieval import Corpus

    corpus = Corpus.open(name, path, embedder=load_embedder(embedder))
    try:
        yield corpus
    finally:
        corpus.close()
