"""A database that its user leaves: the connection is closed, and what it held is given back."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from contextvars import copy_context

import pytest

from dpicl_rag.corpora.corpus import Corpus
from dpicl_rag.knowledge.answer_memory import AnswerMemory
from dpicl_rag.language_models.readers.reply_cache import ReplyCache
from dpicl_rag.ledger import Ledger
from dpicl_rag.server.api_keys import KeyFile
from tests.support.garbage import same_variables
from tests.unit.conftest import HashingEmbedder

pytestmark = pytest.mark.usefixtures("frozen")


class Recorded(sqlite3.Connection):
    """A connection that tells when it is closed; Python 3.13 warns of one that is not."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.closings = []

    def close(self):
        self.closings.append("closed")
        super().close()


@pytest.fixture
def closings(monkeypatch):
    """For each connection that is made, in order, how often it was closed."""
    made = []
    connect = sqlite3.connect

    def recorded(*args, **options):
        connection = connect(*args, factory=Recorded, **options)
        made.append(connection.closings)
        return connection

    monkeypatch.setattr(sqlite3, "connect", recorded)
    return made


def corpus(folder):
    made = Corpus.create("mail", folder, embedder=HashingEmbedder())
    made.add(["The lift is broken."])
    return made


def memory(folder):
    return AnswerMemory(folder / "memory.sqlite", "mail")


def replies(folder):
    made = ReplyCache(file=folder / "replies.sqlite")
    made.put("reader", "prompt", "reply", 0.0)
    return made


def keys(folder):
    return KeyFile(folder / "keys.sqlite")


def ledger(folder):
    return Ledger(folder / "ledger.sqlite")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("in_cycle", [False, True], ids=["alone", "in a cycle"])
@pytest.mark.parametrize("opened", [corpus, memory, replies, keys, ledger])
def test_its_connections_are_closed(opened, in_cycle, tmp_path, closings):
    left = [opened(tmp_path)]
    if in_cycle:
        left.append(left)
    assert [] in closings  # one is open
    del left
    before = copy_context()
    gc.collect()
    assert [] not in closings
    assert same_variables(before)


@pytest.mark.parametrize("opened", [corpus, memory, ledger])
def test_with_closes_them(opened, tmp_path, closings):
    with opened(tmp_path) as one:
        assert [] in closings
    assert [] not in closings
    del one


def test_a_reservation_in_a_cycle_is_settled(tmp_path, closings):
    path = tmp_path / "ledger.sqlite"
    left = [Ledger(path)]
    left[0].set_budget(corpus="mail", rho=1.0)
    left += [left[0].reserve(corpus="mail", rho=1.0), left]
    left[1].commit(0.25)
    del left
    gc.collect()
    assert [] not in closings
    with Ledger(path) as ledger:
        (status,) = ledger.status()
    assert (status.spent, status.reserved) == (0.25, 0.0)


def test_nobody_is_waited_for_where_garbage_is_collected(tmp_path):
    path = tmp_path / "ledger.sqlite"
    left = [Ledger(path, busy_timeout=600.0)]
    left[0].set_budget(corpus="mail", rho=1.0)
    left += [left[0].reserve(corpus="mail", rho=1.0), left]
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        del left
        collecting = threading.Thread(target=gc.collect, daemon=True)
        collecting.start()
        collecting.join(20.0)
        assert not collecting.is_alive()
        other.execute("ROLLBACK")
    with Ledger(path) as ledger:  # what could not be given back is held until the process ends
        (status,) = ledger.status()
    assert (status.spent, status.reserved) == (0.0, 1.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_wait_for_garbage_that_is_collected_within(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", COLLECTED_IN_A_FORK, tmp_path / "ledger.sqlite"], timeout=60.0
    )
    assert ended.returncode == 0


COLLECTED_IN_A_FORK = """
import faulthandler, gc, os, sys
from dpicl_rag.files.database import Database
from dpicl_rag.ledger import Ledger

gc.disable()
left = [Ledger(sys.argv[1])]
left.append(left)
del left
disconnect = Database._disconnect
Database._disconnect = lambda self: (disconnect(self), gc.collect())
faulthandler.dump_traceback_later(20, exit=True)
if not (child := os.fork()):
    os._exit(0)
os.waitpid(child, 0)
"""
