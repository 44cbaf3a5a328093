"""Rehearsals are held once for each model and version of the items, and kept."""

from __future__ import annotations

from dpicl_rag import PrivateContextLLM
from dpicl_rag.rehearsal import Rehearsal, rehearsal_of
from tests.support.speaking_model import SpeakingModel


def test_a_random_model_is_a_toy_and_keeps_its_verdict(tiny_model):
    heard = []
    found = rehearsal_of(tiny_model, on_progress=lambda done, total: heard.append(done))
    assert found.verdict.startswith("a toy")
    assert not found.knows_silence
    heard.clear()
    assert PrivateContextLLM(tiny_model).rehearsal == found
    assert heard == []


def test_an_engine_whose_rows_do_not_speak_is_asked_nothing():
    found = rehearsal_of(SpeakingModel())
    assert found == Rehearsal()
    assert not found.knows_silence
    assert found.verdict.startswith("not rehearsed")
