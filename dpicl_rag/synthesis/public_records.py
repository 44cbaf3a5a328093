"""Public uses of synthetic records: filters, corpora of ours or of Chroma, ordinary answers.

Records carry their text, their vector and ``{synthetic, key, run, tokens}``, all of it public, and
no privacy unit. Where they are put says that they are synthetic (`SyntheticOrigin`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpicl_rag.answering.prompt_rows import greedy_answer
from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.folder import require_corpus_name
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.files.tables import pages
from dpicl_rag.knowledge import PublicDocuments
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.stored_record import SyntheticOrigin
from dpicl_rag.stores.chroma import PUBLIC_FIELD, ChromaCollection, CollectionAddress
from dpicl_rag.stores.chroma_client import guarded, opened

Keep = Callable[[str], bool]
"""A filter of records, by their text alone: it looks at nothing private, so it costs nothing."""

Records = Mapping[str, tuple[str, Mapping[str, Any]]]
"""By their ids, texts and their fields. All of it is public."""

_EMBEDDER_FIELD = "dpicl_embedder"  # for other programs, which must embed questions alike
_PAGE = 64

# An index that other programs search.
_CONFIGURATION: Any = {"hnsw": {"space": "cosine"}}


def into_corpus(
    records: Records,
    origin: SyntheticOrigin,
    name: str,
    path: str | Path | None = None,
    *,
    embedder: Embedder | None = None,
) -> Corpus | ChromaCollection:
    """Put the records of a synthesis into a corpus, once, as `Synthesis.into_corpus` has it.

    Raises:
        CorpusError: The name cannot be one, or is that of another corpus.
    """
    require_free(name, path, origin.run)
    embedder = embedder or SentenceTransformerEmbedder()
    if (address := CollectionAddress.of(name)) is not None:
        _into_collection(records, address, origin, embedder)
        return ChromaCollection.open(name, embedder=embedder)
    longest = max((len(text) for text, _ in records.values()), default=1)
    made = Corpus.create(
        name,
        path,
        embedder=embedder,
        chunk_size=2 * longest + 2,  # a record is one passage
        chunk_overlap=0,
        public=True,
        synthetic=origin,
    )
    documents = [
        Document(text, id, {field: str(value) for field, value in fields.items()})
        for id, (text, fields) in records.items()
    ]
    made.add_synthetic(documents)
    return made


def require_free(name: str, path: str | Path | None, run: str | None = None) -> None:
    """Refuse the name of a corpus that is there.

    Args:
        name: Of the corpus to be made, or the address of a Chroma collection.
        path: Folder of the corpora.
        run: The synthesis whose own corpus may be there.

    Raises:
        CorpusError: The name cannot be one, or is taken.
    """
    if (address := CollectionAddress.of(name)) is not None:
        with guarded(), opened(_made(address.place)) as client:
            there = {one.name: one.metadata or {} for one in client.list_collections()}
        if address.name not in there:
            return
        origin = SyntheticOrigin.of(there[address.name])
    else:
        require_corpus_name(name)
        if name not in Corpus.names(path):
            return
        origin = Corpus.synthetic_origin(name, path)
    if origin is None or origin.run != run:
        raise CorpusError(
            f"there is a corpus {name!r} already; give another name, or delete it with `dpicl-rag "
            f"corpora delete {name}`"
        )


def _into_collection(
    records: Records,
    address: CollectionAddress,
    origin: SyntheticOrigin,
    embedder: Embedder,
) -> None:
    mark = {_EMBEDDER_FIELD: embedder.fingerprint, PUBLIC_FIELD: True, **origin.metadata}
    with guarded(), opened(_made(address.place)) as client:
        collection = client.get_or_create_collection(
            address.name, metadata=mark, embedding_function=None, configuration=_CONFIGURATION
        )
        for page in pages(list(records.items()), _PAGE):
            texts = [text for _, (text, _) in page]
            collection.upsert(
                [id for id, _ in page],
                embeddings=np.asarray(embedder.embed(texts), dtype=np.float32),
                documents=texts,
                metadatas=[dict(fields) for _, (_, fields) in page],
            )


def _made(place: str) -> str:
    """The place of a Chroma database; a folder is made where there is none."""
    if "://" not in place:
        Path(place).expanduser().mkdir(parents=True, exist_ok=True, mode=0o700)
    return place


RECORDS = 1
"""Records that an answer reads by default: the packaged model confuses several."""


def nearest_records(
    source: Corpus | ChromaCollection, question: str, most: int = RECORDS
) -> list[str]:
    """The nearest records of a public corpus.

    The nearest first, as no ranks are hidden here; a retriever of private units hides them.
    """
    return PublicDocuments(source, most=most, least=-1.0).recall(question)


def ordinary_answer(
    source: Corpus | ChromaCollection,
    question: str,
    model: LanguageModel,
    *,
    template: PromptTemplate | None = None,
    records: int = RECORDS,
    max_tokens: int = 32,
    stop: tuple[str, ...] = (),
) -> str:
    """Ordinary RAG: the nearest records in one prompt, the likeliest token at every step.

    Args:
        source: A synthetic corpus, or another public one.
        question: The question.
        model: Any language model.
        template: How records and question become a prompt.
        records: How many are read.
        max_tokens: Most tokens of the answer.
        stop: The answer ends before any of these.

    Raises:
        ConfigurationError: The corpus is private.
    """
    if not source.public:
        raise ConfigurationError(
            f"corpus {source.name!r} is private, and an ordinary answer would give it away; use "
            "PrivateContextLLM, or synthesise a corpus from it"
        )
    passages = nearest_records(source, question, records)
    return greedy_answer(
        model, template or PromptTemplate(), question, passages, max_tokens=max_tokens, stop=stop
    )


def matching(pattern: str) -> Keep:
    """Keep records in which a regular expression is found.

    Raises:
        ConfigurationError: It is none.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"not a regular expression: {error}") from None
    return lambda text: compiled.search(text) is not None
