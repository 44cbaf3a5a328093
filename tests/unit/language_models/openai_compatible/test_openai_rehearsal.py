"""A model behind a server is rehearsed as one here is."""

from __future__ import annotations

import pytest

from dpicl_rag.errors import EngineUnavailableError
from dpicl_rag.rehearsal import kept_rehearsals, rehearsal_of
from dpicl_rag.rehearsal.rehearsing import rehearse


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(kept_rehearsals, "user_cache_path", lambda _: tmp_path)
    return tmp_path / "rehearsals"


@pytest.mark.heavy
def test_it_is_asked_the_same(serve, tiny_model, folder):
    server, model = serve()
    assert rehearsal_of(model) == rehearse(tiny_model)
    assert len(list(folder.iterdir())) == 1
    server.bodies.clear()
    assert rehearsal_of(model).is_toy
    assert server.bodies == []


def test_a_server_that_is_gone_says_so_and_nothing_is_kept(serve, folder):
    _, model = serve(lambda number: "busy")
    with pytest.raises(EngineUnavailableError):
        rehearsal_of(model)
    assert not folder.exists()
