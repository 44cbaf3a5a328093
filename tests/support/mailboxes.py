"""Random small mailboxes, put into corpora in random parts: what units there are, and of whom."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from dpicl_rag.corpora import Corpus
from dpicl_rag.documents import Document, Origin
from tests.support.bucket_embedder import BucketEmbedder

Row = tuple[str, ...]


def random_mailbox(coins: random.Random) -> list[Document]:
    """Documents that tie each other at random: by keys, by offers, and by names of units."""
    count = coins.randrange(2, 10)
    keys = [f"key {number}" for number in range(coins.randrange(2, 3 * count))]

    def some() -> tuple[str, ...]:
        return tuple(coins.sample(keys, min(len(keys), coins.choice((0, 0, 0, 1, 1, 2)))))

    documents = []
    for number in range(count):
        if coins.random() < 0.15:  # a document by hand, in a unit that may have others
            documents.append(Document(f"note {number}", f"unit {coins.randrange(count)}"))
            continue
        own = (f"id {number}", *some())
        if coins.random() < 0.1:
            own = (*own, f"unit unit {coins.randrange(count)}")
        origin = Origin("thread or document", own, some())
        fields = {"message_id": f"<{number}@b>"}
        documents.append(Document(f"mail {number}", f"unit {number}", fields, origin))
    return documents


def units(documents: Sequence[Document]) -> list[list[str]]:
    """Texts of the documents that are one unit, found the slow way."""
    claims = [{f"unit {d.unit}", *d.origin.keys} for d in documents]
    offers = [set(d.origin.offers) for d in documents]
    group = list(range(len(documents)))
    for _ in documents:
        for one in range(len(documents)):
            for other in range(len(documents)):
                if claims[one] & (claims[other] | offers[other]):
                    group[one] = group[other] = min(group[one], group[other])
    return sorted(
        sorted(d.text for d, of in zip(documents, group, strict=True) if of == number)
        for number in set(group)
    )


def mails(found: Sequence[Sequence[str]]) -> list[list[str]]:
    """Units without notes: of those the register knows no ties, so they stay where they are."""
    left = ([text for text in unit if text.startswith("mail")] for unit in found)
    return sorted(unit for unit in left if unit)


def in_parts(coins: random.Random, documents: Sequence[Document]) -> list[list[Document]]:
    """The documents in any order, cut anywhere, some of them twice."""
    left = coins.sample(list(documents), len(documents))
    left += [document for document in documents if coins.random() < 0.2]
    pieces = []
    while left:
        size = coins.randrange(1, len(left) + 1)
        pieces.append(left[:size])
        left = left[size:]
    return pieces


TABLES = {
    "passages": "SELECT u.name, hex(d.digest), d.record, d.tie, d.fields, p.position, p.vector, "
    "p.text FROM passage p JOIN document d ON d.number = p.document "
    "JOIN unit u ON u.number = d.unit",
    "keys": "SELECT unit, hash, former, joined_by, split FROM unit_key",
    "offers": "SELECT unit, key FROM offer",
    "parted": "SELECT unit, id, former FROM parted",
    "ties": "SELECT unit, document, name, keys, offers, forgotten FROM tie",
}


class Filled:
    """A corpus that was filled in parts, and what lies in its file."""

    def __init__(self, parts: Sequence[Sequence[Document]]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.corpus = Corpus.create("mail", self._folder.name, embedder=BucketEmbedder())
        for part in parts:
            self.corpus.add(part, no_ledger=True, joins="allow")

    def units(self) -> list[list[str]]:
        """Texts of the passages that are one unit."""
        found: dict[str, list[str]] = {}
        for record in self.corpus.records():
            found.setdefault(record.unit, []).append(record.text)
        return sorted(map(sorted, found.values()))

    def kept(self, texts: set[str]) -> list[Row]:
        """Every row of the units that have one of the texts: passages, vectors, register, joins."""
        rows: list[Row] = []
        mine = {record.unit for record in self.corpus.records() if record.text in texts}
        with closing(sqlite3.connect(Path(self._folder.name, "mail.corpus"))) as tables:
            for name, query in TABLES.items():
                held = tables.execute(query)
                rows += [(name, *map(str, row)) for row in held if row[0] in mine]
        rows += [(j.unit, *j.parts, *j.documents) for j in self.corpus.joins() if j.unit in mine]
        return sorted(rows)

    def close(self) -> None:
        """Delete it."""
        self.corpus.close()
        self._folder.cleanup()


def check_orders(coins: random.Random) -> None:
    """The units are those of all documents at once, and each has them but for those forgotten."""
    documents = random_mailbox(coins)
    filled = Filled(in_parts(coins, documents))
    try:
        assert filled.units() == units(documents)
        tied = [d for d in documents if d.origin.keys]
        for document in coins.sample(tied, min(len(tied), 2)):
            filled.corpus.forget_message(document.metadata["message_id"], no_ledger=True)
            documents.remove(document)
            for _ in range(2):
                assert mails(filled.units()) == mails(units(documents))
                filled.corpus.add([document, *coins.sample(documents, len(documents) // 2)])
    finally:
        filled.close()


def check_neighbours(coins: random.Random) -> None:
    """Any unit more, wherever its documents stand: all that is kept of the others is the same."""
    documents = random_mailbox(coins)
    parts = in_parts(coins, documents)
    whole = Filled(parts)
    try:
        for unit in units(documents):
            gone = set(unit)
            texts = {document.text for document in documents} - gone
            rest = Filled([[d for d in part if d.text not in gone] for part in parts])
            try:
                assert whole.kept(texts) == rest.kept(texts)
                assert whole.kept(texts) or not texts
            finally:
                rest.close()
    finally:
        whole.close()
