"""A server is ready while answers can be paid for, kept and asked for by those who have a key."""

from __future__ import annotations

import os

import pytest

from dpicl_rag import Ledger
from tests.support.paced_model import PacedModel

pytestmark = pytest.mark.skipif(os.name != "posix", reason="an open file cannot be replaced there")


def ready(running):
    answer = running.client.get("/ready")
    if answer.status_code == 503:
        assert str(running.service.ledger._database.path.parent) not in answer.text
    return answer.status_code


def beside(path):
    """A file of SQLite and what lies beside it."""
    return [
        found for end in ("", "-wal", "-shm") if (found := path.with_name(path.name + end)).exists()
    ]


def test_where_the_ledger_was_removed_it_is_not_ready(serve, tmp_path):
    running = serve(model=PacedModel(open=True))
    assert ready(running) == 200
    for path in beside(tmp_path / "ledger.sqlite"):
        path.unlink()
    assert ready(running) == 503


def test_where_the_ledger_was_replaced_it_is_not_ready(serve, tmp_path):
    running = serve(model=PacedModel(open=True))
    Ledger(tmp_path / "other.sqlite").close()
    for path in beside(tmp_path / "ledger.sqlite"):
        path.unlink()
    (tmp_path / "other.sqlite").replace(tmp_path / "ledger.sqlite")
    assert ready(running) == 503


def test_where_the_disk_is_full_it_is_not_ready(serve):
    from tests.support.full_disk import full_disk

    running = serve(model=PacedModel(open=True))
    assert ready(running) == 200
    with full_disk():
        found = ready(running)
    assert found == 503
    assert ready(running) == 200


def test_where_the_memory_cannot_be_kept_it_is_not_ready(serve, tmp_path):
    running = serve(model=PacedModel(open=True))
    running.ask()
    assert ready(running) == 200
    for path in beside(tmp_path / "memory.sqlite"):
        path.unlink()
    (tmp_path / "memory.sqlite").mkdir()
    assert ready(running) == 503
    (tmp_path / "memory.sqlite").rmdir()
    assert ready(running) == 200


def test_where_the_keys_are_gone_it_is_not_ready(serve, keys):
    keys.add("ann")
    running = serve(keys, model=PacedModel(open=True))
    assert ready(running) == 200
    away = keys.path.with_name("away.sqlite")
    keys.path.rename(away)
    assert ready(running) == 503
    away.rename(keys.path)
    assert ready(running) == 200
