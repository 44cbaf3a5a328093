"""Additions to a corpus: documents placed, cut, compared with what is there, and stored."""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpicl_rag.corpora.contents import Contents, Embedded, StoredDocument
from dpicl_rag.corpora.holdings import Held, Holding, Holdings
from dpicl_rag.corpora.joins import Join
from dpicl_rag.corpora.passages import CutDocument, cut_up, storable
from dpicl_rag.corpora.placing import KIND, Placed, place
from dpicl_rag.corpora.register import Register
from dpicl_rag.corpora.storage import Storage
from dpicl_rag.corpora.unit_changes import Accounts, finish
from dpicl_rag.documents import Document
from dpicl_rag.language_models.base import Progress
from dpicl_rag.loaders.shared_keys import Joins, digest_of, is_tied, own_digest
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.vectors import on_grid

Parts = dict[bytes, list[npt.NDArray[np.float32]]]
"""Vectors of documents that are not whole yet, by their digests."""

_BATCH = 64  # passages embedded at a time
_MOST = 20_000  # passages that wait: 31 MB at 384 dimensions
_LEAST_S = 2.0  # between two transactions


@dataclass(frozen=True, slots=True)
class Ingested:
    """The outcome of `Corpus.add`. For the owner of the documents: the counts are private.

    Attributes:
        documents: Documents given.
        empty: Of these, documents without any text.
        passages: Passages newly embedded and stored.
        known: Passages that were stored before.
        forgotten: Documents that were left out, for the owner had them forgotten.
        joins: Units that were there and are one now.
        left: Units that left the corpus, which was made anew.
        withheld: Documents that were not stored, each as what it would have made one: more than
            three units that are there. ``joins="allow"`` stores them.
    """

    documents: int
    empty: int
    passages: int
    known: int
    forgotten: int = 0
    joins: tuple[Join, ...] = ()
    left: int = 0
    withheld: tuple[Join, ...] = ()


@dataclass(frozen=True, slots=True)
class Adding:
    """The steps by which documents come into one corpus.

    Attributes:
        corpus: Its name.
        storage: Its files.
        embedder: The model.
        chunking: Longest passage, and what neighbours share, in characters.
    """

    corpus: str
    storage: Storage
    embedder: Embedder
    chunking: tuple[int, int]

    def run(
        self,
        documents: Sequence[Document],
        accounts: Accounts,
        joins: Joins = "ask",
        on_progress: Progress | None = None,
        *,
        anew: bool = False,
        held: Held | None = None,
    ) -> Ingested:
        """Add documents; see `Corpus.add`."""
        finish_begun(self.storage, accounts)

        def placing(connection: sqlite3.Connection) -> Placed:
            contents = Contents(connection)
            kind = contents.meta().get(KIND)
            placed = place(
                documents, self.corpus, contents, Register(connection), accounts, joins, anew=anew
            )
            if kind not in (None, contents.meta().get(KIND)):  # its files by another unit
                Holdings(connection).clear()
            if held is not None:
                Holdings(connection).follow(held.source)
            return placed

        placed = self.storage.write(placing)
        cut, empty = cut_up(placed.documents, placed.stored, *self.chunking)
        cut, new, changed = self.storage.read(lambda c: _compared(Contents(c), cut))
        # What is withheld is read again, until the owner accepts it or it is gone.
        stand = [one for one in held.holdings if one.id not in placed.places] if held else []
        waiting, settled = _places(cut, new, stand)
        if changed or settled:

            def update(connection: sqlite3.Connection) -> None:
                Contents(connection).update(changed)
                Holdings(connection).note(settled)

            self.storage.write(update)
        total = sum(len(document.texts) for document in cut)
        known = done = total - sum(len(document.texts) for document in new)
        if on_progress is not None:
            on_progress(done, total)

        def embedded(passages: int) -> None:
            nonlocal done
            done += passages
            if on_progress is not None:
                on_progress(done, total)

        def store(some: Iterable[Embedded]) -> None:
            some = list(some)
            held_now = [place for one, _ in some for place in waiting.get(one.digest, ())]
            self.storage.store(some, lambda c: Holdings(c).note(held_now))

        EmbeddingQueue(self.embedder, store, embedded).run(new)
        kept = {one.digest for one in cut}
        if replaced := self.storage.read(lambda c: _replaced(Contents(c), placed.documents, kept)):

            def delete(connection: sqlite3.Connection) -> None:
                contents = Contents(connection)
                _delete(contents, Holdings(connection), list(replaced))
                wholes = {one.tie: whole for one, whole in replaced.items() if whole}
                left = {one.tie for one in contents.documents("tie", wholes)}
                Register(connection).replace({t: d for t, d in wholes.items() if t not in left})

            self.storage.write(delete)
            self.storage.flush()
        return Ingested(
            documents=len(placed.documents) + placed.forgotten + len(placed.withheld),
            empty=empty,
            passages=total - known,
            known=known,
            forgotten=placed.forgotten,
            joins=placed.joins,
            left=placed.left,
            withheld=placed.withheld,
        )


def finish_begun(storage: Storage, accounts: Accounts) -> None:
    """End in the ledger what was begun in the corpus; see `forget`."""
    if storage.read(lambda c: Register(c).pending()) is not None:
        storage.write(lambda c: finish(Register(c), accounts))


class EmbeddingQueue:
    """Embeds documents in batches, and stores them together: a transaction waits for the disk.

    A unit's documents are stored in one transaction, as far as they come one after the other and
    are not more than may wait. What a kill loses is embedded again.

    Args:
        embedder: The model.
        store: Stores documents with their vectors.
        on_passages: Called with how many passages were embedded since the last call.
    """

    def __init__(
        self,
        embedder: Embedder,
        store: Callable[[Iterable[Embedded]], None],
        on_passages: Callable[[int], None],
    ) -> None:
        self._embedder = embedder
        self._store = store
        self._on_passages = on_passages
        self._whole: list[Embedded] = []  # every passage is embedded
        self._waiting = 0
        self._next = time.monotonic() + _LEAST_S

    def run(self, documents: Sequence[CutDocument]) -> None:
        """Embed and store all of them; what is whole is stored whatever comes between."""
        try:
            batch: list[tuple[CutDocument, str]] = []
            done: Parts = {}
            for document in documents:
                for text in document.texts:
                    batch.append((document, text))
                    if len(batch) == _BATCH:
                        self._embed(batch, done)
                        batch = []
            self._embed(batch, done)
        finally:
            self._flush(self._whole)

    def _embed(self, batch: list[tuple[CutDocument, str]], done: Parts) -> None:
        if not batch:
            return
        vectors = on_grid(self._embedder.embed([text for _, text in batch]))
        for (document, _), vector in zip(batch, vectors, strict=True):
            whole = done.setdefault(document.digest, [])
            whole.append(vector)
            if len(whole) == len(document.texts):
                self._whole.append((document, np.stack(done.pop(document.digest))))
        self._waiting += len(batch)
        self._on_passages(len(batch))
        if self._waiting >= _MOST or time.monotonic() >= self._next:
            # The last unit may have more documents to come.
            last = self._whole[-1][0].unit if self._whole else None
            ready = [one for one in self._whole if one[0].unit != last]
            self._flush(ready if ready and self._waiting < 2 * _MOST else self._whole)

    def _flush(self, ready: list[Embedded]) -> None:
        # Taken out first: what the store refused is not tried again on the way out.
        taken = {document.digest for document, _ in ready}
        self._whole = [one for one in self._whole if one[0].digest not in taken]
        self._waiting = sum(len(vectors) for _, vectors in self._whole)
        if ready:
            self._store(ready)
        self._next = time.monotonic() + _LEAST_S


def _compared(
    contents: Contents, cut: Sequence[CutDocument]
) -> tuple[list[CutDocument], list[CutDocument], list[StoredDocument]]:
    """All documents by the digests that they are stored under, new ones, and what others say now.

    A text that was stored in one unit may be another's since it was separated. The unit that it has
    left is not to lose what it says as well: its own is stored beside it, under another digest.
    """
    wanted = {d for one in cut for d in (one.digest, *one.former, one.beside)}
    stored = {one.digest: one for one in contents.documents("digest", wanted)}
    names = contents.units({one.unit for one in stored.values()})
    placed: list[CutDocument] = []
    new: list[CutDocument] = []
    changed: list[StoredDocument] = []
    for one in cut:
        there = (stored[d] for d in (*one.former, one.digest, one.beside) if d in stored)
        match = next((document for document in there if names[document.unit] == one.unit), None)
        if match is None:
            one = replace(one, digest=one.beside if one.digest in stored else one.digest)
            new.append(one)
        else:
            one = replace(one, digest=match.digest)
            now = match._replace(record=one.record, tie=one.tie, fields=one.fields)
            changed += [now] if now != match else []
        placed.append(one)
    return placed, new, changed


def _places(
    cut: Sequence[CutDocument], new: Sequence[CutDocument], holdings: Sequence[Holding]
) -> tuple[dict[bytes, list[Holding]], list[Holding]]:
    """By the digest of each document that is not there its places, and the other places."""
    settled = {one.id: one for one in holdings}
    waiting: dict[bytes, list[Holding]] = {one.digest: [] for one in new}
    for one in cut:
        places = [
            settled[id]._replace(document=one.digest.hex()) for id in one.places if id in settled
        ]
        if one.digest in waiting:
            waiting[one.digest] = places
        else:
            settled.update((holding.id, holding) for holding in places)
    for places in waiting.values():
        for holding in places:
            del settled[holding.id]
    return waiting, list(settled.values())


def _delete(contents: Contents, holdings: Holdings, gone: Sequence[StoredDocument]) -> None:
    contents.delete(gone)
    holdings.replaced(document.digest.hex() for document in gone)


def _replaced(
    contents: Contents, documents: Sequence[Document], kept: set[bytes]
) -> dict[StoredDocument, str]:
    """Stored documents whose place others take: of the same unit each, so nobody's but its own.

    What was read of a record before goes; of a message only what says less, for a copy of it may
    have other attachments. By each that goes the digest of the message that says all of it.
    """
    records = {(d.unit, d.origin.record) for d in documents if d.origin.record}
    messages: defaultdict[str, list[Document]] = defaultdict(list)
    for document in documents:
        if document.origin.said and is_tied(document):
            messages[own_digest(digest_of(document))].append(document)
    own = f"substr(tie, 1, {len(next(iter(messages), ''))})"
    read = contents.documents("record", {record for _, record in records})
    less = contents.documents(own, messages) if messages else []
    names = contents.units({one.unit for one in (*read, *less)})
    gone = {one: "" for one in read if (names[one.unit], one.record) in records}
    texts = contents.texts(one.number for one in less)
    for one in less:
        for document in messages[own_digest(one.tie)]:
            said = storable(document.text)
            if names[one.unit] == document.unit and all(t in said for t in texts[one.number]):
                gone[one] = digest_of(document)
    return {one: whole for one, whole in gone.items() if one.digest not in kept}
