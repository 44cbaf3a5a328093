"""A stream that is dropped half-way: garbage ends it, wherever the collector runs."""

from __future__ import annotations

import gc
import threading
from contextvars import copy_context

import pytest

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.ledger import Ledger
from tests.support.garbage import same_variables

pytestmark = pytest.mark.usefixtures("frozen")


class Letters:
    """A tokenizer of letters."""

    stop_tokens = frozenset()

    def decode(self, ids):
        return "".join(map(chr, ids))


def left_half_way(ledger):
    """Begins a stream, reads one of its tokens, and drops it."""
    held = ledger.reserve(corpus="mail", rho=1.0)

    def tokens():
        for token in b"abc":
            held.commit(0.25)
            yield token

    stream = PrivateStream(
        tokens(), Letters(), stop=(), max_tokens=3, start="", close=held.close, finish=None
    )
    assert next(stream) == "a"


def test_it_is_settled_where_its_own_ledger_is_being_written(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")  # no `with`: where this fails, it cannot be closed
    ledger.set_budget(corpus="mail", rho=2.0)
    left_half_way(ledger)
    variables = []

    def collect(_):
        before = copy_context()
        gc.collect()
        variables.append(same_variables(before))

    writing = threading.Thread(target=lambda: ledger._database.write(collect), daemon=True)
    writing.start()
    writing.join(10.0)
    assert not writing.is_alive()
    assert variables == [True]
    ledger.settle_stale()
    (status,) = ledger.status()
    assert (status.spent, status.reserved) == (0.25, 0.0)
    ledger.close()
