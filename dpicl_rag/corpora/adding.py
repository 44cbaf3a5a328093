"""Adding documents to a corpus: placed, cut, compared with what is there, embedded and stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpicl_rag.corpora.contents import Contents, Embedded, StoredDocument
from dpicl_rag.corpora.embedding_queue import EmbeddingQueue
from dpicl_rag.corpora.forgetting import finish
from dpicl_rag.corpora.holdings import Held, Holding, Holdings
from dpicl_rag.corpora.joins import Join, Joins
from dpicl_rag.corpora.passages import CutDocument, cut_up
from dpicl_rag.corpora.placing import KIND, Placed, place
from dpicl_rag.corpora.register import Register
from dpicl_rag.corpora.storage import Storage
from dpicl_rag.corpora.unit_accounts import Accounts
from dpicl_rag.documents import Document
from dpicl_rag.language_models.base import Progress
from dpicl_rag.loaders.shared_keys import digest_of, is_tied
from dpicl_rag.retrieval.embeddings import Embedder


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
    """

    documents: int
    empty: int
    passages: int
    known: int
    forgotten: int = 0
    joins: tuple[Join, ...] = ()
    left: int = 0


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
        new, changed, moved, there = self.storage.read(lambda c: _compared(Contents(c), cut))
        waiting, settled = _places(cut, there, held.holdings if held else ())
        if changed or moved or settled:

            def update(connection: sqlite3.Connection) -> None:
                _update(Contents(connection), changed, moved)
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
        records = {d.origin.record for d in placed.documents if d.origin.record}
        kept = {digest for one in cut for digest in (one.digest, *one.former)}
        # A message that is read with its attachments takes the place of itself without them.
        richer = (d for d in placed.documents if d.origin.said and is_tied(d))
        ties = set(map(digest_of, richer))
        gone = self.storage.read(lambda c: _replaced(Contents(c), records, ties, kept))
        if gone:
            self.storage.write(lambda c: _delete(Contents(c), Holdings(c), gone))
            self.storage.flush()
        return Ingested(
            documents=len(placed.documents) + placed.forgotten,
            empty=empty,
            passages=total - known,
            known=known,
            forgotten=placed.forgotten,
            joins=placed.joins,
            left=placed.left,
        )


def finish_begun(storage: Storage, accounts: Accounts) -> None:
    """End in the ledger what was begun in the corpus; see `forget`."""
    if storage.read(lambda c: Register(c).pending()) is not None:
        storage.write(lambda c: finish(Register(c), accounts))


def _compared(
    contents: Contents, cut: Sequence[CutDocument]
) -> tuple[list[CutDocument], list[StoredDocument], dict[int, str], dict[bytes, bytes]]:
    """Documents that are not there, what others say now, and which go to another unit.

    Last, by the digest of each that is there, the one that it is stored under.
    """
    wanted = {digest for one in cut for digest in (one.digest, *one.former)}
    stored = {one.digest: one for one in contents.documents("digest", wanted)}
    names = contents.units({one.unit for one in stored.values()})
    new: list[CutDocument] = []
    changed: list[StoredDocument] = []
    moved: dict[int, str] = {}
    there: dict[bytes, bytes] = {}
    for one in cut:
        found = next((stored[d] for d in (*one.former, one.digest) if d in stored), None)
        if found is None:
            new.append(one)
            continue
        there[one.digest] = found.digest
        now = found._replace(record=one.record, tie=one.tie, fields=one.fields)
        if now != found:
            changed.append(now)
        if names[found.unit] != one.unit:
            moved[found.number] = one.unit
    return new, changed, moved, there


def _places(
    cut: Sequence[CutDocument], there: Mapping[bytes, bytes], holdings: Sequence[Holding]
) -> tuple[dict[bytes, list[Holding]], list[Holding]]:
    """By the digest of each document that is not there its places, and the other places."""
    settled = {one.id: one for one in holdings}
    waiting: dict[bytes, list[Holding]] = {}
    for one in cut:
        document = there.get(one.digest, one.digest).hex()
        own = [settled[id]._replace(document=document) for id in one.places if id in settled]
        if one.digest in there:
            settled.update((holding.id, holding) for holding in own)
        else:
            waiting[one.digest] = own
    for own in waiting.values():
        for holding in own:
            del settled[holding.id]
    return waiting, list(settled.values())


def _update(
    contents: Contents, changed: Sequence[StoredDocument], moved: Mapping[int, str]
) -> None:
    contents.update(changed)
    contents.move(moved)


def _delete(contents: Contents, holdings: Holdings, gone: Sequence[StoredDocument]) -> None:
    contents.delete(gone)
    holdings.replaced(document.digest.hex() for document in gone)


def _replaced(
    contents: Contents, records: set[str], ties: set[str], kept: set[bytes]
) -> list[StoredDocument]:
    """Documents that were read before from records, or known as messages, and are not there now."""
    found = {
        one.digest: one
        for column, values in (("record", records), ("tie", ties))
        for one in contents.documents(column, values)
    }
    return [one for digest, one in found.items() if digest not in kept]
