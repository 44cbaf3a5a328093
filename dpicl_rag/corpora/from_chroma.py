"""Corpora of older versions, which were kept in Chroma, brought over once.

Passages, vectors, units, keys and joins come as they were; ledgers and memories know a corpus by
its name and units by theirs, and go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpicl_rag.corpora.contents import Contents, Embedded
from dpicl_rag.corpora.corpus import Corpus, make_corpus
from dpicl_rag.corpora.corpus_schema import KEY, OFFER, PARTED, TIE
from dpicl_rag.corpora.folder import old_folder
from dpicl_rag.corpora.forgetting import separate_in
from dpicl_rag.corpora.old_corpora import old_names
from dpicl_rag.corpora.passages import CutDocument
from dpicl_rag.corpora.placing import KIND, MADE_ANEW
from dpicl_rag.corpora.register import Register, key_hash
from dpicl_rag.corpora.separation import Separation
from dpicl_rag.errors import CorpusError
from dpicl_rag.files.checked_table import pages
from dpicl_rag.retrieval.defects import record_of
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.stored_record import OWN_FIELDS, UNIT_FIELD, Record
from dpicl_rag.retrieval.synthetic_mark import SyntheticOrigin
from dpicl_rag.retrieval.vectors import on_grid
from dpicl_rag.stores.chroma import EMBEDDER_FIELD, PUBLIC_FIELD
from dpicl_rag.stores.chroma_client import guarded, opened

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

_PAGE = 1000
_PREFIX = "dpicl-units-"
_SIZE, _OVERLAP = "dpicl_chunk_size", "dpicl_chunk_overlap"

Fields = Mapping[str, Any]


def bring_over(
    name: str,
    source: str | Path | None = None,
    path: str | Path | None = None,
    *,
    embedder: Embedder | None = None,
) -> int:
    """Copy a corpus that an older version kept in Chroma; the collection stays as it is.

    Args:
        name: Of the corpus.
        source: Folder of the Chroma database, or address of a server; where older versions kept
            corpora if None.
        path: Folder of the corpora; the user's data folder if None.
        embedder: The embedding model that it was made with; the packaged one if None.

    Returns:
        How many passages it has.

    Raises:
        CorpusError: There is no such corpus in the database, or one of its name is here already.
    """
    if name in Corpus.names(path):
        raise CorpusError(
            f"there is a corpus {name!r} here already; delete it with `dpicl-rag corpora delete "
            f"{name}`, or give another folder with --path"
        )
    place = source or old_folder(path)
    if place is None:
        raise CorpusError("there is no Chroma database of an older version; name its folder")
    with guarded(), opened(place) as client:
        if name not in old_names(client):
            raise CorpusError(f"no older version has made a corpus {name!r} there")
        collection = client.get_collection(name, embedding_function=None)
        metadata = collection.metadata
        embedder = embedder or SentenceTransformerEmbedder()
        if metadata[EMBEDDER_FIELD] != embedder.fingerprint:
            raise CorpusError(
                f"corpus {name!r} was embedded with {metadata[EMBEDDER_FIELD]}, not with "
                f"{embedder.fingerprint}; name that embedder"
            )
        return _copied(client, collection, path, embedder)


def _copied(
    client: ClientAPI, collection: Collection, path: str | Path | None, embedder: Embedder
) -> int:
    metadata = collection.metadata
    synthetic = SyntheticOrigin.of(metadata)
    name = collection.name
    chunking = metadata.get(_SIZE, 800), metadata.get(_OVERLAP, 80)
    public = metadata.get(PUBLIC_FIELD) is True
    make_corpus(name, path, embedder, chunking, public, synthetic)
    with closing(Corpus.open(name, path, embedder=embedder)) as made:
        storage = made._storage
        register = _PREFIX + key_hash(name)[:32]
        count = 0
        try:
            for some in _documents(collection, UNIT_FIELD if synthetic is None else "document"):
                storage.store(some)
                count += sum(len(vectors) for _, vectors in some)
            known = {} if synthetic is not None else _register(client, register)
            kinds = {KIND: metadata.get("dpicl_privacy_unit")}
            kinds |= {MADE_ANEW: True} if metadata.get("dpicl_made_anew") else {}

            def note(connection: Any) -> None:
                Contents(connection).set_meta(kinds)
                _note(connection, known)

            storage.write(note)
        except BaseException:
            storage.erase()  # half of it would be asked as if it were all
            raise
    return count


def _documents(collection: Collection, unit_field: str) -> Iterator[list[Embedded]]:
    """Documents with their vectors, whole ones together."""
    ids = sorted(collection.get(include=[])["ids"])  # passages of a document follow each other
    left: dict[bytes, list[tuple[int, Record, Fields, npt.NDArray[np.float32]]]] = {}
    for page in pages(ids, _PAGE):
        found: Any = collection.get(
            ids=list(page), include=["embeddings", "metadatas", "documents"]
        )
        order = np.argsort(found["ids"])
        vectors = on_grid(np.asarray(found["embeddings"]))
        for place in order.tolist():
            fields = found["metadatas"][place] or {}
            record = record_of(found["ids"][place], fields, found["documents"][place], unit_field)
            if isinstance(record, Record):
                digest, position = _identity(record)
                left.setdefault(digest, []).append((position, record, fields, vectors[place]))
        # The last may have more passages on the next page.
        yield [_document(digest, left.pop(digest)) for digest in list(left)[:-1]]
    yield [_document(digest, rows) for digest, rows in left.items()]


def _identity(record: Record) -> tuple[bytes, int]:
    digest, _, position = record.id.rpartition("-")
    try:
        return bytes.fromhex(digest), int(position)
    except ValueError:
        return bytes.fromhex(key_hash(record.id)), 0


def _document(
    digest: bytes, rows: Sequence[tuple[int, Record, Fields, npt.NDArray[np.float32]]]
) -> Embedded:
    rows = sorted(rows, key=lambda row: row[0])
    _, record, fields, _ = rows[0]
    own = {name: str(value) for name, value in fields.items() if name not in OWN_FIELDS}
    cut = CutDocument(
        digest=digest,
        former=(),
        unit=record.unit,
        record=str(fields.get("dpicl_record", "")),
        tie=str(fields.get("dpicl_tie", "")),
        fields=json.dumps(own, ensure_ascii=False),
        texts=[one.text for _, one, _, _ in rows],
    )
    return cut, np.stack([vector for *_, vector in rows])


def _register(client: ClientAPI, name: str) -> dict[str, Fields]:
    from chromadb.errors import NotFoundError

    try:
        records = client.get_collection(name, embedding_function=None)
    except NotFoundError:
        return {}
    held = records.get(include=["metadatas"])
    return {
        id: fields or {} for id, fields in zip(held["ids"], held["metadatas"] or [], strict=True)
    }


def _note(connection: Any, known: Mapping[str, Fields]) -> None:
    """Write down what an older register knows."""
    keys, offers, parted, ties = [], [], [], []
    begun: Separation | None = None
    for id, fields in known.items():

        def text(name: str, fields: Fields = fields) -> str:
            return str(fields.get(name, ""))

        if id == "version":
            continue
        if id == "pending":
            begun = Separation.from_json(text("pending"))
        elif "offered" in fields:
            offers.append(
                (f"{text('offered')} {key_hash(text('unit'))}", text("offered"), text("unit"))
            )
        elif "parted" in fields:
            parted.append((id.partition(" ")[2], text("unit"), text("former")))
        elif "document" in fields:
            names = ("document", "unit", "name", "keys", "offers")
            ties.append((*map(text, names), int(bool(fields.get("forgotten")))))
        else:
            merged = fields.get("merged")
            former = [text(name) if merged else "" for name in ("former", "on", "by")]
            keys.append((id, text("unit"), *former, int(bool(fields.get("split")))))
    for table, rows in ((KEY, keys), (OFFER, offers), (PARTED, parted), (TIE, ties)):
        table.put(connection, rows)
    if begun is not None:
        # Steps were taken one by one then; those that were, do no harm again.
        separate_in(Contents(connection), Register(connection), begun)
