"""A synthetic corpus as a Chroma collection that any client reads.

Records carry their text, their vector and ``{synthetic, key, run, tokens}``, all of it public, and
no privacy unit. The collection says of itself that it is synthetic (`SyntheticOrigin`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.corpus import collection_metadata, require_corpus_name
from dpicl_rag.corpora.register import pages
from dpicl_rag.corpora.synthetic_mark import SyntheticOrigin
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.store import Store

if TYPE_CHECKING:
    from dpicl_rag.synthesis.released_records import Synthesis

_PAGE = 64

# An index that other programs search, unlike those of private corpora, which are always scanned.
_CONFIGURATION = {"hnsw": {"space": "cosine"}}


def into_corpus(
    synthesis: Synthesis,
    name: str,
    path: str | Path | None = None,
    *,
    embedder: Embedder | None = None,
) -> Corpus:
    """Put the finished records into a collection; again, nothing changes.

    Args:
        synthesis: The records.
        name: Of the corpus.
        path: Folder of the Chroma database; the user's data folder if None.
        embedder: Embedding model; the packaged one if None.

    Raises:
        CorpusError: The name cannot be one, or is that of another corpus.
    """
    require_free(name, path, synthesis.run)
    embedder = embedder or SentenceTransformerEmbedder()
    origin = SyntheticOrigin(synthesis.run, synthesis.epsilon, synthesis.delta)
    finished = [
        (f"{origin.run}-{number}", record)
        for number, record in enumerate(synthesis.records)
        if record.text and record.stopped_by != "interrupted"
    ]
    with Store.at(path, None).writing() as chroma:
        collection = chroma.get_or_create_collection(
            name,
            metadata={**collection_metadata(embedder, public=True), **origin.metadata},
            embedding_function=None,
            configuration=_CONFIGURATION,
        )
        for page in pages(finished, _PAGE):
            texts = [record.text for _, record in page]
            collection.upsert(
                [id for id, _ in page],
                embeddings=np.asarray(embedder.embed(texts), dtype=np.float32),
                documents=texts,
                metadatas=[
                    {
                        "synthetic": True,
                        "key": record.key or record.label or "",
                        "run": origin.run,
                        "tokens": record.tokens,
                    }
                    for _, record in page
                ],
            )
    return Corpus.open(name, path, embedder=embedder)


def require_free(name: str, path: str | Path | None, run: str | None = None) -> None:
    """Refuse the name of a corpus that is there.

    Args:
        name: Of the corpus to be made.
        path: Folder of the Chroma database.
        run: The synthesis whose own corpus may be there.

    Raises:
        CorpusError: The name cannot be one, or is taken.
    """
    require_corpus_name(name)
    store = Store.at(path, None)
    if name not in store.names():
        return
    with store.reading() as chroma:
        metadata = chroma.get_collection(name, embedding_function=None).metadata or {}
    origin = SyntheticOrigin.of(metadata)
    if origin is None or origin.run != run:
        raise CorpusError(
            f"there is a corpus {name!r} already; give another name, or delete it with `dpicl-rag "
            f"corpora delete {name}`"
        )
