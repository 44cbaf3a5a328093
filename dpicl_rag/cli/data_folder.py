"""The places of corpora, the ledger and models, and how commands open them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_data_path

from dpicl_rag.configuration import UNITS

if TYPE_CHECKING:
    from dpicl_rag.cli.option_groups import Source
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.knowledge import AnswerMemory, Bundle
    from dpicl_rag.knowledge.answer_file import AnswerFile
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.language_models.ray import RayModel
    from dpicl_rag.language_models.readers.reply_cache import ReplyCache
    from dpicl_rag.ledger import Ledger
    from dpicl_rag.retrieval import Search
    from dpicl_rag.retrieval.embeddings import Embedder
    from dpicl_rag.stores.chroma import ChromaCollection

_REPLIES_STAND = 30 * 86_400.0  # seconds


def default_ledger() -> Path:
    """The ledger's file if none is named.

    It does not follow ``--path``: a budget must hold however the corpus was reached. Two stores
    with a corpus of the same name share its budget unless each is given a ledger.
    """
    return user_data_path("dpicl-rag", appauthor=False) / "ledger.sqlite"


def default_keys() -> Path:
    """The file of the server's keys if none is named."""
    return default_ledger().with_name("keys.sqlite")


def prefix_folder(corpus: str, path: str | None) -> Path:
    """The folder in which `ingest --warm` keeps what the model has read of a corpus."""
    from dpicl_rag.corpora.folder import beside

    return beside(path, "read") / corpus


def open_prefixes(corpus: str, path: str | None) -> PrefixCache | None:
    """The prefixes that were read ahead of a corpus, if any were."""
    from dpicl_rag.language_models.prefix_cache import PrefixCache

    folder = prefix_folder(corpus, path)
    return PrefixCache(folder=folder) if folder.is_dir() else None


def open_replies(opened: Corpus | ChromaCollection, path: str | None) -> ReplyCache:
    """The replies of readers to units of a corpus: on disk beside a corpus of our own."""
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.language_models.readers.reply_cache import ReplyCache

    if not isinstance(opened, Corpus):  # its documents are kept elsewhere, and so not here
        return ReplyCache()
    return ReplyCache(_REPLIES_STAND, _replies_file(opened.name, path))


def forget_reading(corpus: str, path: str | None) -> None:
    """Delete what models and readers have read of a whole corpus."""
    shutil.rmtree(prefix_folder(corpus, path), ignore_errors=True)
    file = _replies_file(corpus, path)
    for one in (file, *(file.with_name(file.name + suffix) for suffix in ("-wal", "-shm"))):
        one.unlink(missing_ok=True)


def forget_units_read(opened: Corpus, path: str | None, units: set[str]) -> None:
    """Delete what models have read of a corpus, and what readers said of some units.

    Others' replies stay: those that were drawn again would tell that a unit was forgotten.

    Args:
        opened: The corpus, before they are deleted there.
        path: Where it is.
        units: Their names. Private.
    """
    from dpicl_rag.language_models.readers.reply_cache import ReplyCache

    shutil.rmtree(prefix_folder(opened.name, path), ignore_errors=True)
    if (file := _replies_file(opened.name, path)).exists():
        with closing(ReplyCache(_REPLIES_STAND, file)) as replies:
            replies.keep_only(opened.unit_names() - units)


def _replies_file(corpus: str, path: str | None) -> Path:
    from dpicl_rag.corpora.folder import beside

    return beside(path, "replies") / f"{corpus}.sqlite"


@contextmanager
def spread_model(model: str | None, workers: int | None) -> Iterator[str | RayModel | None]:
    """The model by name, or spread over Ray workers, which end with the block."""
    if workers is None:
        yield model
        return
    from dpicl_rag.language_models.ray import RayModel

    with RayModel(model, workers) as spread:
        yield spread


def open_ledger(path: Path | None) -> Ledger:
    """Open a ledger, to be closed by the caller."""
    from dpicl_rag.ledger import Ledger

    return Ledger(path or default_ledger())


def memory_path(ledger: Path | None) -> Path:
    """The file of released answers: beside the ledger that their cost is booked in."""
    book = ledger or default_ledger()
    return book.with_name(f"{book.name}.memory")


def open_answers(ledger: Path | None) -> AbstractContextManager[AnswerFile]:
    """Open the released answers of all corpora and callers."""
    from dpicl_rag.knowledge.answer_file import AnswerFile

    return closing(AnswerFile(memory_path(ledger)))


def open_memory(
    corpus: str, caller: str | None, ledger: Path | None, embedder: str | None, *, shared: bool
) -> AnswerMemory:
    """Open the released answers of one corpus, to one caller or, shared, to all."""
    from dpicl_rag.knowledge import AnswerMemory

    loaded, file = load_embedder(embedder), memory_path(ledger)
    return AnswerMemory(file, corpus, caller=caller, shared=shared, embedder=loaded)


@contextmanager
def find_ledger(path: Path | None) -> Iterator[Ledger | None]:
    """The ledger if there is one; none is made, so that a wrong name is seen."""
    if not (path or default_ledger()).exists():
        yield None
        return
    with open_ledger(path) as ledger:
        yield ledger


def load_embedder(model: str | None, device: str | None = None) -> Embedder:
    """The embedding model by name, on a device; loaded at first use."""
    from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(model, device=device)


def open_bundle(folder: Path | None, embedder: str | None) -> Bundle | None:
    """Open a published bundle, if one is named."""
    if folder is None:
        return None
    from dpicl_rag.knowledge import Bundle

    return Bundle.open(folder, embedder=load_embedder(embedder))


@contextmanager
def open_corpus(
    name: str, path: str | None, embedder: str | None
) -> Iterator[Corpus | ChromaCollection]:
    """Open an existing corpus, or a Chroma collection that was adopted by its address."""
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.corpora.corpus import open_corpus

    with closing(open_corpus(name, path, embedder=load_embedder(embedder))) as corpus:
        if not isinstance(corpus, Corpus):
            corpus.require_ready(name)
        yield corpus


def open_own_corpus(name: str, path: str | None, embedder: str | None) -> Corpus:
    """Open an existing corpus; no collection of others."""
    from dpicl_rag.corpora import Corpus

    return Corpus.open(name, path, embedder=load_embedder(embedder))


def search_of(opened: Corpus | ChromaCollection, source: Source) -> Search:
    """The search that was asked for, over an open corpus."""
    from dpicl_rag import retrieval

    if source.private_top_k is not None:
        found = retrieval.PrivateTopKRetriever(opened, source.private_top_k)
    else:
        units = source.units or UNITS
        found = retrieval.retriever_over(
            opened, units=units, threshold=source.threshold, top_k=source.top_k
        )
    if source.sample is not None:
        found = retrieval.PoissonSampledRetriever(found, source.sample)
    return found
