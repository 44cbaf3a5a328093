"""A file of another version: one line says so, and nothing of it is read or changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from dpicl_rag.corpora.contents import CORPUS
from dpicl_rag.corpora.corpus import Corpus
from dpicl_rag.errors import CorpusError, DPICLError, KeyFileError, KnowledgeError, LedgerError
from dpicl_rag.files.database import Database
from dpicl_rag.knowledge.answer_file import MEMORY, AnswerFile
from dpicl_rag.language_models.readers.reply_cache import ReplyCache
from dpicl_rag.ledger import Ledger
from dpicl_rag.ledger.ledger_schema import LEDGER
from dpicl_rag.server.api_keys import KeyFile
from tests.unit.conftest import HashingEmbedder


def corpus(path):
    return Corpus.create("mail", path.parent, embedder=HashingEmbedder())


def replies(path):
    return ReplyCache(file=path)


OPENED = [
    (Ledger, LedgerError, "another file: what was spent is then forgotten"),
    (AnswerFile, KnowledgeError, "delete the file: its answers are then forgotten"),
    (KeyFile, KeyFileError, "dpicl-rag keys add"),
    (corpus, CorpusError, "ingest the documents again"),
    (replies, DPICLError, "delete it"),
]


def numbered(path, change):
    """Give a file another number."""
    with closing(sqlite3.connect(path)) as connection, connection:
        (number,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {number + change}")


@pytest.mark.parametrize(
    ("opened", "error", "remedy"), OPENED, ids=["ledger", "memory", "keys", "corpus", "replies"]
)
@pytest.mark.parametrize("change", [-1, 1])
def test_it_is_refused_and_stays_as_it_is(tmp_path, opened, error, remedy, change):
    path = tmp_path / "mail.corpus"
    opened(path).close()
    numbered(path, change)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for _ in range(2):
        with pytest.raises(error) as caught:
            opened(path)
        (line,) = str(caught.value).splitlines()
        assert f"{path} was made by another version of dpicl-rag; " in line
        assert remedy in line
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("kind", [LEDGER, MEMORY, CORPUS])
def test_one_that_another_version_makes_meanwhile_is_refused(tmp_path, kind):
    path = tmp_path / "file"
    with closing(Database(path, kind, busy_timeout=1.0)) as database:
        assert database.read(kind.version_of) == 0
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"PRAGMA user_version = {kind.version + 1}")
        with pytest.raises(kind.error, match="another version"):
            database.make_ready()


@pytest.mark.parametrize("after", range(1, 4))
def test_a_file_that_another_process_makes_meanwhile_is_our_own(tmp_path, after):
    """It is looked at in three reads, and may be made between any two of them."""
    path, reads = tmp_path / "made", 0

    def make(statement):
        nonlocal reads
        reads += 1
        if reads == after + 1:
            with closing(sqlite3.connect(path)) as other, other:
                LEDGER.make(other)

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.set_trace_callback(make)
        assert not LEDGER.is_foreign(connection)
    assert reads == 3
