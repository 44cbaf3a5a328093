"""A corpus of private passages: one SQLite file, and a mapped file of vectors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dpicl_rag.corpora.adding import Adding, Ingested, finish_begun
from dpicl_rag.corpora.contents import CORPUS, Contents
from dpicl_rag.corpora.folder import (
    SUFFIX,
    corpus_file,
    local_path,
    make_folder,
    require_corpus_name,
)
from dpicl_rag.corpora.holdings import Followed, Held, Holdings
from dpicl_rag.corpora.joins import Join, described
from dpicl_rag.corpora.passages import named, split_text, stored_unit
from dpicl_rag.corpora.register import Register
from dpicl_rag.corpora.storage import PATIENCE_S, Storage
from dpicl_rag.corpora.unit_changes import Accounts, forget, units_of
from dpicl_rag.documents import Document, as_documents
from dpicl_rag.errors import CorpusError
from dpicl_rag.files.database import Database
from dpicl_rag.language_models.base import Progress
from dpicl_rag.loaders.framework_documents import FrameworkDocument
from dpicl_rag.loaders.loader import framework_documents_as_ours
from dpicl_rag.loaders.shared_keys import Joins, name_key
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.stored_record import (
    SYNTHESIS,
    Defect,
    StoredRecord,
    SyntheticOrigin,
    filter_from,
    find_defects,
)
from dpicl_rag.retrieval.unit_vectors import UnitVectors
from dpicl_rag.retrieval.vectors import ExactSource, NearUnits, Where
from dpicl_rag.stores.chroma import ChromaCollection, CollectionAddress

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

    from dpicl_rag.ledger import Ledger


_NAME, _EMBEDDER, _SIZE, _OVERLAP, _PUBLIC = "name", "embedder", "size", "overlap", "public"
_CHOSEN = (_NAME, _EMBEDDER, _SIZE, _OVERLAP, _PUBLIC, SYNTHESIS)


class Corpus(ExactSource):
    """Passages, their embeddings and their privacy units; make one with `create` or `open`.

    Attributes:
        name: Of the corpus. Public.
        embedder: What passages and questions are embedded with.
        public: Whether it was made of public texts, which may inform answers at no cost.
        synthetic: The synthesis that drew its texts; None for texts that somebody wrote.
    """

    def __init__(self, storage: Storage, embedder: Embedder) -> None:
        meta = storage.read(lambda connection: Contents(connection).meta())
        self.name: str = meta[_NAME]
        if meta[_EMBEDDER] != embedder.fingerprint:
            raise CorpusError(
                f"corpus {self.name!r} was embedded with {meta[_EMBEDDER]}, not with "
                f"{embedder.fingerprint}; open it with that embedder, or ingest the documents "
                "into a new corpus"
            )
        self.embedder = embedder
        self.public: bool = meta[_PUBLIC]
        self.synthetic = SyntheticOrigin.of(meta)
        self._chunking: tuple[int, int] = meta[_SIZE], meta[_OVERLAP]
        self._storage = storage
        storage.chosen = {name: meta.get(name) for name in _CHOSEN}

    def __repr__(self) -> str:
        return f"Corpus({self.name!r})"

    @classmethod
    def create(
        cls,
        name: str,
        path: str | Path | None = None,
        *,
        embedder: Embedder | None = None,
        chunk_size: int = 800,
        chunk_overlap: int = 80,
        public: bool = False,
        synthetic: SyntheticOrigin | None = None,
    ) -> Corpus:
        """Open a corpus, making it first if there is none of this name.

        Args:
            name: 3 to 512 letters, digits, dots, underscores and hyphens. Public.
            path: Folder of the corpora; the user's data folder if None.
            embedder: Embedding model; the packaged one if None.
            chunk_size: Longest passage, in characters.
            chunk_overlap: Characters repeated between neighbouring passages.
            public: That every text put there is public: it may then inform answers at no cost
                (``PrivateContextLLM(knowledge=...)``). Chosen once.
            synthetic: The synthesis that its texts are drawn by. Chosen once.

        Raises:
            CorpusError: The name is invalid, or a corpus of this name was made with another
                embedding model, or is private and shall be public, or the reverse.
            ConfigurationError: A length is out of range.
        """
        require_corpus_name(name)
        split_text("", chunk_size, chunk_overlap)  # for its checks
        embedder = embedder or SentenceTransformerEmbedder()
        folder = local_path(path)
        if name not in cls.names(path):
            make_folder(folder)
            meta = {
                _NAME: name,
                _EMBEDDER: embedder.fingerprint,
                _SIZE: chunk_size,
                _OVERLAP: chunk_overlap,
                _PUBLIC: public,
                **({} if synthetic is None else synthetic.metadata),
            }

            def make(connection: sqlite3.Connection) -> None:
                contents = Contents(connection)
                if _NAME not in contents.meta():  # else another process was first
                    contents.begin()
                    contents.set_meta(meta)
                    contents.renew()

            file = corpus_file(folder, name)
            with closing(Database(file, CORPUS, busy_timeout=PATIENCE_S)) as database:
                database.make_ready()
                database.write(make)
        corpus = cls(Storage(corpus_file(folder, name)), embedder)
        if corpus.public != public:
            corpus.close()
            kinds = ("private", "public") if public else ("public", "private")
            raise CorpusError(
                f"corpus {name!r} was made {kinds[0]} and stays so; put {kinds[1]} texts into "
                "another corpus"
            )
        return corpus

    @classmethod
    def open(
        cls, name: str, path: str | Path | None = None, *, embedder: Embedder | None = None
    ) -> Corpus:
        """Open an existing corpus; arguments as for `create`.

        Raises:
            CorpusError: There is none of this name (the message names those that are there), or
                it was made with another embedding model.
        """
        require_corpus_name(name)
        known = cls.names(path)
        if name not in known:
            there = f"there are: {', '.join(known)}" if known else "there is none yet"
            raise CorpusError(
                f"no corpus named {name!r}; {there}. Make it with `dpicl-rag ingest PATH "
                f"--corpus {name}`"
            )
        storage = Storage(corpus_file(local_path(path), name))
        try:
            return cls(storage, embedder or SentenceTransformerEmbedder())
        except BaseException:
            storage.close()
            raise

    @staticmethod
    def from_collection(
        collection: Collection,
        *,
        unit_field: str,
        embedder: Embedder | None = None,
        **options: Any,
    ) -> ChromaCollection:
        """A Chroma collection that something else fills, in the place of a corpus.

        See `dpicl_rag.stores.chroma.ChromaCollection` for the arguments.
        """
        return ChromaCollection(collection, unit_field=unit_field, embedder=embedder, **options)

    @staticmethod
    def names(path: str | Path | None = None) -> list[str]:
        """Names of the corpora in a folder, sorted; none if there is no folder."""
        names = []
        for file in local_path(path).glob(f"*{SUFFIX}"):
            try:
                with closing(Storage(file)) as storage:
                    # One that was deleted has no name: what it knew of keys is kept.
                    names.append(storage.read(lambda c: Contents(c).meta()).get(_NAME))
            except CorpusError:
                names.append(file.stem)  # whoever opens it learns what is wrong with it
        return sorted(name for name in names if name is not None)

    @staticmethod
    def synthetic_origin(name: str, path: str | Path | None = None) -> SyntheticOrigin | None:
        """The synthesis that drew a corpus, whatever it was embedded with."""
        with closing(Storage(corpus_file(local_path(path), name))) as storage:
            return SyntheticOrigin.of(storage.read(lambda c: Contents(c).meta()))

    @staticmethod
    def delete(name: str, path: str | Path | None = None) -> None:
        """Delete a corpus.

        By which keys its units were known is kept: a unit that comes back is who it was. What was
        spent is the ledger's.

        Raises:
            CorpusError: There is none of this name.
        """
        if name not in Corpus.names(path):
            raise CorpusError(f"no corpus named {name!r}; `dpicl-rag corpora list` names them")
        with closing(Storage(corpus_file(local_path(path), name))) as storage:
            storage.erase()

    def add(
        self,
        documents: Iterable[Document | str | FrameworkDocument],
        on_progress: Progress | None = None,
        *,
        unit: str | None = None,
        ledger: Ledger | None = None,
        no_ledger: bool = False,
        joins: Joins = "ask",
        anew: bool = False,
        held: Held | None = None,
    ) -> Ingested:
        """Cut documents into passages, embed and store them.

        A document that belongs to a unit which is there, such as a late reply to a thread, joins
        it, whatever unit it names. Where units that are there turn out to be one, so do their
        spends in the ledger. What is read again from the same record of the same file takes the
        place of what was there. A message that was forgotten stays so.

        A document is known by a hash of its unit and its text. Adding the same documents again adds
        nothing, and an ingest that was interrupted goes on where it stopped; changed metadata is
        updated.

        Args:
            documents: Documents, or strings, each a unit of its own; or documents of LangChain or
                LlamaIndex, each of which must have a text and a value for their ``unit``. `load`
                skips those that have none, and reports them.
            on_progress: Called with (passages done, passages in all).
            unit: For documents of LangChain and LlamaIndex: the metadata field that names the
                privacy unit; ``"document"`` makes each a unit, which is right where none was split.
            ledger: What pays for answers from this corpus.
            no_ledger: That nothing does. One of the two is needed where units turn out to be one.
            joins: What becomes of a document that would make more than three units one which are
                there: ``"ask"`` withholds it, tells it as ``withheld`` and stores the others;
                ``"allow"`` joins the units.
            anew: Make a corpus whose units nobody chose anew under the unit of the documents. What
                the former units have spent goes to the units that hold their records. Give all
                documents: what they lack leaves the corpus, if ``joins`` is ``"allow"``.
            held: The source that the documents come from, which is followed from now on, and what
                was found at its places; see `dpicl_rag.following`. A document names its place.

        Raises:
            CorpusError: The corpus is synthetic, or has another privacy unit; or units turn out to
                be one and no ledger was given; or another process is filling it for long.
            LedgerError: The ledger cannot be written. The corpus is as it was.
            ConfigurationError: A document has no text or no unit.
        """
        if self.synthetic is not None:
            raise CorpusError(f"corpus {self.name!r} is synthetic: its run alone adds to it")
        adding = Adding(self.name, self._storage, self.embedder, self._chunking)
        renamed = [
            named(document)
            for document in as_documents(framework_documents_as_ours(documents, unit))
        ]
        accounts = Accounts(self.name, ledger, none=no_ledger)
        with self._storage.changing():
            return adding.run(renamed, accounts, joins, on_progress, anew=anew, held=held)

    @property
    def followed(self) -> Followed:
        """The sources that the corpus follows. For the owner; private."""
        return Followed(self._storage)

    def add_synthetic(self, documents: Sequence[Document]) -> None:
        """Put the records of its own run into a synthetic corpus; again, nothing changes."""
        adding = Adding(self.name, self._storage, self.embedder, self._chunking)
        with self._storage.changing():
            adding.run(documents, Accounts(self.name, None, none=True))

    def joins(self) -> list[Join]:
        """Units that were there and became one when documents came, the latest first.

        For the owner of the documents: private. `forget_message` undoes one.

        Raises:
            CorpusError: The corpus cannot be read.
        """
        return self._storage.read(lambda c: described(Register(c).joins(), Contents(c)))

    def forget_message(
        self, message: str, *, ledger: Ledger | None = None, no_ledger: bool = False
    ) -> None:
        """Delete the passages of one message, and what it alone held together is separate again.

        Each unit that was one by itself goes on with the budget that it had, less what it may have
        lost since; what never was one shares the budget of the unit that it leaves. The message
        stays forgotten: `add` leaves it out. Others that tie the same units tie them still.

        Args:
            message: Its Message-ID, or its name among the documents of one of `joins`.
            ledger: What pays for answers from this corpus.
            no_ledger: That nothing does. One of the two is needed where units are separated.

        Raises:
            CorpusError: No message, or more than one, is called so; or units are separated and no
                ledger was given.
            LedgerError: The ledger cannot be written.
        """
        accounts = Accounts(self.name, ledger, none=no_ledger)
        with self._storage.changing():
            finish_begun(self._storage, accounts)
            self._storage.write(
                lambda c: forget(message, Contents(c), Register(c), Holdings(c), accounts)
            )
            finish_begun(self._storage, accounts)
        self._storage.flush()

    def unit_names(self) -> set[str]:
        """Names of all units that have documents. For the owner; private."""
        return self._storage.read(lambda c: Contents(c).every_unit())

    def name_of_unit(self, unit: str) -> str:
        """The present name of a unit, which may have become part of another."""
        wanted = stored_unit(unit)
        key = name_key(wanted)
        return self._storage.read(lambda c: Register(c).units([key])).get(key, wanted)

    def units_of_message(self, message: str) -> set[str]:
        """The unit of a message that `forget_message` would delete, if there is one.

        Raises:
            CorpusError: No message, or more than one, is called so.
        """
        return self._storage.read(lambda c: units_of(message, Contents(c), Register(c)))

    def delete_unit(self, unit: str) -> None:
        """Remove all passages of a privacy unit; nothing happens if there are none.

        A unit that became part of another goes with it: they are one.
        """
        wanted = stored_unit(unit)

        def work(connection: sqlite3.Connection) -> None:
            contents, register = Contents(connection), Register(connection)
            key = name_key(wanted)
            name = register.units([key]).get(key, wanted)
            # Known by its name when it comes back, whatever the unit is called by then.
            register.record({key: name}, {}, {})
            contents.delete(contents.documents("unit", contents.numbers([name]).values()))

        with self._storage.changing():
            self._storage.write(work)
        self._storage.flush()

    def unit_vectors(self) -> UnitVectors:
        """Vectors of all passages, as they are now; see `UnitVectorSource`. Private.

        Raises:
            CorpusError: The corpus cannot be read.
        """
        return self._storage.unit_vectors(self.embedder)

    def _near(
        self, question: npt.ArrayLike, least: float, most: int | None, where: Where | None
    ) -> NearUnits:
        filter = None if where is None else filter_from(where)
        return self._storage.scan(self.embedder, question, least, most, filter)

    def records(self) -> list[StoredRecord]:
        """Every passage as it is now, those of a unit together. For the owner; private.

        Raises:
            CorpusError: The corpus cannot be read.
        """
        held = self._storage.read(lambda c: Contents(c).records())
        return sorted((record for record, _ in held.values()), key=lambda one: (one.unit, one.id))

    def check(self) -> list[Defect]:
        """Passages that no question finds, and why: no usable vector.

        For the owner of the documents. The list is private.

        Raises:
            CorpusError: The corpus cannot be read.
        """
        rows = self._storage.state(self.embedder).rows
        held = self._storage.read(lambda c: Contents(c).records())
        live = [(row, record) for row, (record, _) in held.items() if row < len(rows.vectors)]
        vectors = rows.vectors[:, : rows.dimensions]
        return find_defects(((record, vectors[row]) for row, record in live), self.embedder)

    def close(self) -> None:
        """Forget what is in memory and release the files."""
        self._storage.close()

    def __enter__(self) -> Corpus:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


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
