"""A corpus of private passages in a Chroma collection."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpicl_rag.corpora import kinds
from dpicl_rag.corpora.chunking import split_text
from dpicl_rag.corpora.defects import Defect, find_defects, record_of
from dpicl_rag.corpora.forgetting import finish, forget
from dpicl_rag.corpora.identity import name_key
from dpicl_rag.corpora.joins import Join, Joins, described
from dpicl_rag.corpora.passage_changes import (
    Embedded,
    Ingested,
    Progress,
    Stored,
    cut_up,
    delete_replaced,
)
from dpicl_rag.corpora.passages import UNIT_FIELD, Record, stored_unit
from dpicl_rag.corpora.placing import Placed, place
from dpicl_rag.corpora.register import PREFIX, Register, pages, refill, register_name
from dpicl_rag.corpora.synthetic_mark import SyntheticOrigin
from dpicl_rag.corpora.unit_accounts import Accounts
from dpicl_rag.documents import Document, as_documents, unit_of
from dpicl_rag.errors import CorpusError
from dpicl_rag.loaders.framework_documents import FrameworkDocument
from dpicl_rag.loaders.handed_over import taken_over
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.local import LocalVectors
from dpicl_rag.retrieval.server import REFRESH_S, ServerVectors, cache_folder
from dpicl_rag.retrieval.store import Store
from dpicl_rag.retrieval.vector_file import remove_files
from dpicl_rag.retrieval.vectors import Found, Snapshot, Where

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

    from dpicl_rag.ledger import Ledger

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,510}[A-Za-z0-9]")
_EMBEDDER, _SIZE, _OVERLAP = "dpicl_embedder", "dpicl_chunk_size", "dpicl_chunk_overlap"
_PUBLIC = "dpicl_public"
_BATCH = 64  # passages embedded at a time
_PAGE = 1000  # records read at a time
_HELD_S = 40.0  # how long a store is held for writing: each time its index is loaded anew
# Chroma's own index is never searched, so it is kept poor: building it costs most of what storing
# costs. Not as poor as it may be: with 2 neighbours the index crashes the process where units are
# forgotten and added again. Vectors keep their bits in a space that does not scale them.
_INDEX = {"space": "l2", "max_neighbors": 8, "ef_construction": 8, "sync_threshold": 20_000}


class Corpus:
    """Passages, their embeddings and their privacy units; make one with `create` or `open`.

    Retrieval scores every vector (`scan`), because Chroma's own search is approximate.

    Attributes:
        name: Of the collection. Public.
        embedder: What passages and questions are embedded with.
        synthetic: The synthesis that drew its texts; None for texts that somebody wrote.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        embedder: Embedder,
        *,
        unit_field: str = UNIT_FIELD,
        chunking: tuple[int, int] | None = None,
        collection: Collection | None = None,
        public: bool = False,
        synthetic: SyntheticOrigin | None = None,
        refresh: float = REFRESH_S,
    ) -> None:
        self.name = name
        self.synthetic = synthetic
        self.embedder = embedder
        self._public = public
        self._store = store
        self._unit_field = unit_field
        self._chunking = chunking
        self._given = collection
        self._file: LocalVectors | ServerVectors | None = None  # a database in memory has none
        if store.path is not None:
            self._file = local = LocalVectors(store, name, unit_field)
            if chunking is not None:  # else its vectors are another's, and perhaps not gridded
                store.menders = {
                    name: partial(local.refill, embedder=embedder),
                    register_name(name): refill,
                }
        elif store.server is not None:
            self._file = ServerVectors(store, name, unit_field, refresh=refresh, given=collection)

    def __repr__(self) -> str:
        return f"Corpus({self.name!r})"

    @property
    def public(self) -> bool:
        """Whether it was made of public texts, which may inform answers at no cost."""
        return self._public

    @classmethod
    def create(
        cls,
        name: str,
        path: str | Path | None = None,
        *,
        client: ClientAPI | None = None,
        embedder: Embedder | None = None,
        chunk_size: int = 800,
        chunk_overlap: int = 80,
        public: bool = False,
        refresh: float = REFRESH_S,
    ) -> Corpus:
        """Open a corpus, making it first if there is none of this name.

        Args:
            name: 3 to 512 letters, digits, dots, underscores and hyphens. Public.
            path: Folder of a local Chroma database, or the address of a Chroma server such as
                ``"http://localhost:8000"``; the user's data folder if None.
            client: Chroma client to use in place of ``path``.
            embedder: Embedding model; the packaged one if None.
            chunk_size: Longest passage, in characters.
            chunk_overlap: Characters repeated between neighbouring passages.
            public: That every text put there is public: it may then inform answers at no cost
                (``PrivateContextLLM(knowledge=...)``). Chosen once.
            refresh: For a server: seconds after which what other programs wrote
                is read. What this library writes or forgets, and what changes the number of
                passages, is seen by the next question. Public.

        Raises:
            CorpusError: The name is invalid, or a corpus of this name was made with another
                embedding model, or is private and shall be public, or the reverse.
            ConfigurationError: A length is out of range.
        """
        require_corpus_name(name)
        split_text("", chunk_size, chunk_overlap)  # for its checks
        embedder = embedder or SentenceTransformerEmbedder()
        metadata = {
            **collection_metadata(embedder, public=public),
            _SIZE: chunk_size,
            _OVERLAP: chunk_overlap,
        }
        with Store.at(path, client).kept() as store:
            if name not in store.names():
                with store.writing() as chroma:
                    chroma.create_collection(
                        name,
                        metadata=metadata,
                        embedding_function=None,
                        configuration={"hnsw": _INDEX},
                        get_or_create=True,
                    )
            corpus = cls._opened(store, name, embedder, refresh)
            if corpus.public != public:
                kinds = ("private", "public") if public else ("public", "private")
                raise CorpusError(
                    f"corpus {name!r} was made {kinds[0]} and stays so; put {kinds[1]} texts into "
                    "another corpus"
                )
            return corpus

    @classmethod
    def open(
        cls,
        name: str,
        path: str | Path | None = None,
        *,
        client: ClientAPI | None = None,
        embedder: Embedder | None = None,
        refresh: float = REFRESH_S,
    ) -> Corpus:
        """Open an existing corpus; arguments as for `create`.

        Raises:
            CorpusError: There is none of this name (the message names those that are there), or
                it was made with another embedding model.
        """
        require_corpus_name(name)
        embedder = embedder or SentenceTransformerEmbedder()
        with Store.at(path, client).kept() as store:
            return cls._opened(store, name, embedder, refresh)

    @classmethod
    def _opened(cls, store: Store, name: str, embedder: Embedder, refresh: float) -> Corpus:
        known = store.names()
        if name not in known:
            there = f"there are: {', '.join(known)}" if known else "there is none yet"
            raise CorpusError(
                f"no corpus named {name!r}; {there}. Make it with `dpicl-rag ingest PATH "
                f"--corpus {name}`"
            )
        with store.reading() as client:
            metadata = client.get_collection(name, embedding_function=None).metadata or {}
        if _EMBEDDER not in metadata:
            raise CorpusError(
                f"collection {name!r} was not made by this library; open it with "
                "Corpus.from_collection"
            )
        if metadata[_EMBEDDER] != embedder.fingerprint:
            raise CorpusError(
                f"corpus {name!r} was embedded with {metadata[_EMBEDDER]}, not with "
                f"{embedder.fingerprint}; open it with that embedder, or ingest the documents "
                "into a new corpus"
            )
        # What others fill is not cut into passages here, and each record is by itself.
        synthetic = SyntheticOrigin.of(metadata)
        return cls(
            store,
            name,
            embedder,
            unit_field=UNIT_FIELD if synthetic is None else "document",
            chunking=(metadata[_SIZE], metadata[_OVERLAP]) if synthetic is None else None,
            public=metadata.get(_PUBLIC) is True,
            synthetic=synthetic,
            refresh=refresh,
        )

    @classmethod
    def from_collection(
        cls,
        collection: Collection,
        *,
        unit_field: str,
        embedder: Embedder | None = None,
        refresh: float = REFRESH_S,
    ) -> Corpus:
        """A corpus over a collection that something else fills; it can be read and deleted from.

        Args:
            collection: A Chroma collection, for example ``Chroma._collection`` of
                langchain_chroma or ``ChromaVectorStore._collection`` of LlamaIndex.
            unit_field: Metadata field that holds the privacy unit; a record without it is never
                read, and `check` names it. With ``"document"`` each record is a unit of its own;
                only right where no document was cut into several records. LlamaIndex keeps the
                document in ``"document_id"``.
            embedder: The embedding model that the collection was filled with; the packaged one if
                None.
            refresh: As for `create`.

        Raises:
            CorpusError: The collection was opened with another ``unit_field`` before, or is a
                corpus of this library and has units.
        """
        metadata = collection.metadata or {}
        if _EMBEDDER in metadata and unit_field != UNIT_FIELD:
            raise CorpusError(
                f"collection {collection.name!r} has its privacy units already; open it with "
                "Corpus.open"
            )
        # Chroma has no public way from a collection to its client.
        store = Store.of_client(collection._client, collection.tenant, collection.database)
        if _EMBEDDER not in metadata:
            with store.writing():
                if not kinds.require(collection, unit_field):
                    kinds.write(collection, unit_field)
        return cls(
            store,
            collection.name,
            embedder or SentenceTransformerEmbedder(),
            unit_field=unit_field,
            collection=collection,
            refresh=refresh,
        )

    @staticmethod
    def names(path: str | Path | None = None, *, client: ClientAPI | None = None) -> list[str]:
        """Names of the corpora in a database, sorted; none if there is no database."""
        with closing(Store.at(path, client)) as store:
            return store.names()

    @staticmethod
    def delete(
        name: str, path: str | Path | None = None, *, client: ClientAPI | None = None
    ) -> None:
        """Delete a corpus, and the vectors of it that this machine keeps.

        By which keys its units were known is kept: a unit that comes back is who it was. What was
        spent is the ledger's.

        Args:
            name: Of the corpus.
            path: As for `create`.
            client: As for `create`.

        Raises:
            CorpusError: There is none of this name.
        """
        with closing(Store.at(path, client)) as store:
            if name not in store.names():
                raise CorpusError(f"no corpus named {name!r}; `dpicl-rag corpora list` names them")
            with store.writing() as chroma:
                collection = chroma.get_collection(name, embedding_function=None)
                chroma.delete_collection(name)
                folder = store.path if store.server is None else cache_folder()
                if folder is not None:  # one in memory has no files
                    remove_files(folder, str(collection.id))

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
    ) -> Ingested:
        """Cut documents into passages, embed and store them.

        A document that belongs to a unit which is there, such as a late reply to a thread, joins
        it, whatever unit it names. Where units that are there turn out to be one, so do their
        spends in the ledger. What is read again from the same record of the same file takes the
        place of what was there. A message that was forgotten stays so.

        A passage's id is a hash of its unit, its document's text and its place in it. Adding the
        same documents again adds nothing, and an ingest that was interrupted goes on where it
        stopped; changed metadata is updated.

        Args:
            documents: Documents, or strings, each a unit of its own; or documents of LangChain or
                LlamaIndex, each of which must have a text and a value for their ``unit``. `load`
                skips those that have none, and reports them.
            on_progress: Called with (passages done, passages in all).
            unit: For documents of LangChain and LlamaIndex: the metadata field that names the
                privacy unit; ``"document"`` makes each a unit, which is right where none was split.
            ledger: What pays for answers from this corpus.
            no_ledger: That nothing does. One of the two is needed where units turn out to be one.
            joins: What becomes of documents by which more than three units that are there turn out
                to be one: ``"ask"`` refuses all of them, ``"allow"`` joins the units.
            anew: Make a corpus whose units nobody chose anew under the unit of the documents. What
                the former units have spent goes to the units that hold their records. Give all
                documents: what they lack leaves the corpus, if ``joins`` is ``"allow"``.

        Raises:
            CorpusError: Chroma refuses the documents, or the corpus is another's collection, or
                has another privacy unit; or units turn out to be one and no ledger was given.
            JoinError: Many units would become one. The corpus is as it was; ``error.joins`` tells
                the owner which.
            LedgerError: The ledger cannot be written. The corpus is as it was.
            ConfigurationError: A document has no text or no unit.
        """
        if self._chunking is None:
            raise CorpusError("a corpus from a collection is filled by what made the collection")
        accounts = self._accounts(ledger, no_ledger)
        own = as_documents(taken_over(documents, unit))
        placed = self._placed(own, accounts, joins, anew=anew)
        given = placed.documents
        cut = cut_up(given, placed.stored, *self._chunking)
        stored = self._stored_metadata([*cut.passages, *cut.former_ids])
        passages = cut.as_stored(stored)
        new = [record for record in passages.values() if record.id not in stored]
        changed = [
            record
            for record in passages.values()
            if record.id in stored and stored[record.id] != record.metadata
        ]
        done = len(passages) - len(new)
        if changed:
            with self._writing() as (_, collection):
                for batch in pages(changed, _PAGE):
                    collection.update(
                        [record.id for record in batch],
                        metadatas=[
                            # Chroma merges; a field that is gone is unset by None.
                            {**dict.fromkeys(stored[record.id]), **record.metadata}
                            for record in batch
                        ],
                    )
        if on_progress is not None:
            on_progress(done, len(passages))
        with Embedded(self._store_passages) as embedded:
            for batch in pages(new, _BATCH):
                embedded.add(batch, self.embedder.embed([record.text for record in batch]))
                done += len(batch)
                if on_progress is not None:
                    on_progress(done, len(passages))
        if any(document.origin.record for document in given):
            with self._writing(forgets=True) as (_, collection):
                delete_replaced(collection, given, passages)
        return Ingested(
            documents=len(given) + placed.forgotten,
            empty=cut.empty,
            passages=len(new),
            known=len(passages) - len(new),
            forgotten=placed.forgotten,
            joins=placed.joins,
            left=placed.left,
        )

    def joins(self) -> list[Join]:
        """Units that were there and became one when documents came, the latest first.

        For the owner of the documents: private. `forget_message` undoes one.

        Raises:
            CorpusError: The collection cannot be read.
        """
        with self._store.reading() as client:
            found = Register(client, self.name).joins()
            return described(found, self._collection(client, given=True))

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
            CorpusError: No message, or more than one, is called so; or the corpus is another's
                collection, or units are separated and no ledger was given.
            LedgerError: The ledger cannot be written.
        """
        if self._chunking is None:
            raise CorpusError("a corpus from a collection has no messages; delete records there")
        accounts = self._accounts(ledger, no_ledger)
        with self._writing(forgets=True) as (client, collection):
            register = Register(client, self.name)
            finish(collection, register, accounts)
            forget(message, collection, register, accounts)

    def delete_unit(self, unit: str) -> None:
        """Remove all passages of a privacy unit; nothing happens if there are none.

        A unit that became part of another goes with it: they are one.

        Chroma's files may hold traces of a deleted text until they are compacted
        (``chroma vacuum``).
        """
        wanted = stored_unit(unit)
        with self._writing(forgets=True) as (client, collection):
            key = name_key(wanted)
            register = None if self._chunking is None else Register(client, self.name)
            if register is not None:
                wanted = register.units([key]).get(key, wanted)
            ids = self._ids_of(wanted, collection)
            if register is not None:
                # Known by its name when it comes back, whatever the unit is called by then.
                register.record({key: wanted}, {}, {})
            for batch in pages(ids, _PAGE):
                collection.delete(ids=list(batch))

    def scan(
        self,
        question: npt.ArrayLike,
        *,
        least: float = -math.inf,
        most: int | None = None,
        where: Where | None = None,
    ) -> Found:
        """Find units near a question by exact scores; see `VectorSource.scan`.

        Args:
            question: Its embedding, shape ``[d]``.
            least: Least cosine of a unit's best passage.
            most: Of these units, how many of the best suffice; all if None.
            where: Chroma metadata filter; a passage's own metadata decides on it. Public.

        Raises:
            CorpusError: The collection cannot be read. No single record causes that: one without
                a text or the unit's field is left out; see `check`.
        """
        if self._file is not None:
            return self._file.scan(question, least, most, where)
        return self._snapshot(where).scan(question, least, most)

    def records(self) -> list[Record]:
        """Every passage as it is now, those of a unit together. For the owner; private.

        Raises:
            CorpusError: The collection cannot be read.
        """
        return self._snapshot().records

    def check(self) -> list[Defect]:
        """Records that questions do not find, and why: no text, no unit, no usable vector.

        For the owner of the documents, after a collection was filled: no question tells of them,
        for that would be a release. The list is private.

        Raises:
            CorpusError: The collection cannot be read.
        """
        return find_defects(self._rows(), self.embedder)

    def close(self) -> None:
        """Forget what is in memory and release the files."""
        if self._file is not None:
            self._file.close()
        self._store.close()

    def _accounts(self, ledger: Ledger | None, no_ledger: bool) -> Accounts:
        return Accounts(self.name, ledger, none=no_ledger)

    def _placed(
        self, documents: Sequence[Document], accounts: Accounts, joins: Joins, *, anew: bool
    ) -> Placed:
        """The documents under their units."""
        with self._reading():
            pass  # reading makes no folder where the corpus's is gone, as writing would
        with self._writing(forgets=anew) as (client, collection):
            register = Register(client, self.name)
            if finish(collection, register, accounts) and self._file is not None:
                self._file.wrote(client, collection, forgot=True)
            named = [
                document
                if (unit := stored_unit(document.unit)) == document.unit
                else replace(document, unit=unit)
                for document in documents
            ]
            return place(named, collection, register, accounts, joins, anew=anew)

    def _ids_of(self, unit: str, collection: Collection) -> list[str]:
        """Identifiers of all records of a unit."""
        if self._file is not None:
            return self._file.ids_of(unit, collection)
        page = collection.get(include=["metadatas"])
        # Not by a filter on the field: that tells the number 1 from the string, units do not.
        return [
            id
            for id, fields in zip(page["ids"], page["metadatas"] or [], strict=True)
            if unit_of(id, fields or {}, self._unit_field) == unit
        ]

    def _store_passages(self, passages: Sequence[Stored]) -> None:
        while passages:
            # Others wait for the store only so long at a time.
            written: list[Stored] = []
            with self._writing(written) as (client, collection):
                size, ends = client.get_max_batch_size(), time.monotonic() + _HELD_S
                while passages and time.monotonic() < ends:
                    batch, passages = passages[:size], passages[size:]
                    self._store.note_written()
                    collection.upsert(
                        [record.id for record, _ in batch],
                        embeddings=np.stack([vector for _, vector in batch]),
                        documents=[record.text for record, _ in batch],
                        metadatas=[dict(record.metadata) for record, _ in batch],
                    )
                    written.extend(batch)

    def _snapshot(self, where: Where | None = None) -> Snapshot:
        """All passages as they are now, in memory."""
        rows = [(record, vector) for record, vector in self._rows() if isinstance(record, Record)]
        vectors = np.stack([vector for _, vector in rows]) if rows else np.zeros((0, 0))
        whole = Snapshot([record for record, _ in rows], vectors)
        if where is None:
            return whole
        with self._reading() as collection:
            return whole.where(collection.get(where=dict(where), include=[])["ids"])

    def _rows(self) -> list[tuple[Record | Defect, npt.NDArray[np.float32]]]:
        """Every record with its vector."""
        found: list[tuple[Record | Defect, npt.NDArray[np.float32]]] = []
        with self._reading() as collection:
            # Identifiers first, in one statement: pages by offset would slip under a writer.
            for ids in pages(collection.get(include=[])["ids"], _PAGE):
                page = collection.get(ids=ids, include=["embeddings", "metadatas", "documents"])
                rows = zip(
                    page["ids"], page["metadatas"] or [], page["documents"] or [], strict=True
                )
                vectors = np.asarray(page["embeddings"], dtype=np.float32)
                records = (record_of(*row, self._unit_field) for row in rows)
                found.extend(zip(records, vectors, strict=True))
        return found

    def _stored_metadata(self, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        if self._file is not None:
            return self._file.metadata(ids)
        stored: dict[str, Mapping[str, Any]] = {}
        with self._reading() as collection:
            for page in pages(ids, _PAGE):
                found = collection.get(ids=page, include=["metadatas"])
                stored.update(zip(found["ids"], found["metadatas"] or [], strict=True))
        return stored

    @contextmanager
    def _reading(self) -> Iterator[Collection]:
        with self._store.reading() as client:
            yield self._collection(client, given=self._store.path is None)

    @contextmanager
    def _writing(
        self, written: Sequence[Stored] = (), *, forgets: bool = False
    ) -> Iterator[tuple[ClientAPI, Collection]]:
        """The store for writing; what was written is found from then on.

        Args:
            written: Filled with all that is written meanwhile, if nothing else is.
            forgets: Whether something is deleted.
        """
        with self._store.writing() as client:
            collection = self._collection(client, given=True)
            yield client, collection
            if self._file is not None:
                self._file.wrote(client, collection, forgot=forgets, written=written)

    def _collection(self, client: ClientAPI, *, given: bool) -> Collection:
        if given and self._given is not None:
            return self._given
        return client.get_collection(self.name, embedding_function=None)


def collection_metadata(embedder: Embedder, *, public: bool) -> dict[str, Any]:
    """What the collection of every corpus says of itself.

    Args:
        embedder: What its passages are embedded with.
        public: Whether its texts are public.
    """
    return {_EMBEDDER: embedder.fingerprint, **({_PUBLIC: True} if public else {})}


def require_corpus_name(name: str) -> None:
    """Check the name of a corpus.

    Raises:
        CorpusError: It cannot be one.
    """
    if not _NAME.fullmatch(name) or name.startswith(PREFIX):
        raise CorpusError(
            "the name of a corpus is 3 to 512 letters, digits, dots, underscores and hyphens, "
            f"with a letter or a digit at both ends and not {PREFIX!r} before them"
        )
