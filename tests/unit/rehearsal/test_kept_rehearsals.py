"""Rehearsals are held once for each model and version of the items, and kept."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from dpicl_rag import PrivateContextLLM, Request
from dpicl_rag.errors import EngineUnavailableError
from dpicl_rag.language_models.readers.no_writer import UnloadedModel
from dpicl_rag.rehearsal import Rehearsal, keep_name, kept_rehearsals, rehearsal_of, unloaded
from tests.support.around import Around
from tests.support.rehearsed_model import RehearsedModel, knowing, talking
from tests.support.speaking_model import SpeakingModel


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache folder, and no rehearsal in memory."""
    monkeypatch.setattr(kept_rehearsals, "user_cache_path", lambda _: tmp_path)
    monkeypatch.setattr(kept_rehearsals, "_known", {})
    return tmp_path / "rehearsals"


def later(monkeypatch):
    """As another process has it: what is in memory is gone."""
    monkeypatch.setattr(kept_rehearsals, "_known", {})


def test_a_model_is_asked_once_in_a_process(folder):
    model = RehearsedModel(knowing)
    found = rehearsal_of(model)
    model.asked.clear()
    for file in folder.iterdir():
        file.unlink()
    assert rehearsal_of(model) == found
    assert model.asked == []


def test_another_process_finds_it_kept(monkeypatch):
    found = rehearsal_of(RehearsedModel(knowing))
    later(monkeypatch)
    model = RehearsedModel(talking)
    assert rehearsal_of(model) == found
    assert model.asked == []


def test_another_model_is_asked_anew(folder):
    assert rehearsal_of(RehearsedModel(knowing)).knows_silence
    assert not rehearsal_of(RehearsedModel(talking, fingerprint="another")).knows_silence
    assert len(list(folder.iterdir())) == 2


def test_two_models_are_rehearsed_at_once():
    begun, ended = threading.Event(), threading.Event()
    slow = RehearsedModel(talking)
    other = RehearsedModel(knowing, fingerprint="another")

    def progress(*_):
        begun.set()
        ended.wait(20.0)

    first = threading.Thread(target=rehearsal_of, args=(slow,), kwargs={"on_progress": progress})
    second = threading.Thread(target=rehearsal_of, args=(other,))
    first.start()
    assert begun.wait(20.0)
    second.start()
    second.join(10.0)
    waits = second.is_alive()
    ended.set()
    first.join()
    second.join()
    assert not waits


def test_other_items_are_asked_anew(monkeypatch):
    rehearsal_of(RehearsedModel(knowing))
    other = replace(kept_rehearsals.ANSWERS, version=lambda: "another")
    monkeypatch.setattr(kept_rehearsals, "ANSWERS", other)
    assert not rehearsal_of(RehearsedModel(talking)).knows_silence


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"{}", b"[]", b'{"told": "all"}', b'{"told": 1, "by_language": 2}', b"\xff"],
)
def test_what_is_damaged_is_held_anew(damage, folder, monkeypatch):
    found = rehearsal_of(RehearsedModel(knowing))
    [file] = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage)
    later(monkeypatch)
    assert rehearsal_of(RehearsedModel(knowing)) == found
    assert file.read_bytes() == whole


def test_where_nothing_can_be_kept_it_is_held_all_the_same(folder):
    folder.write_text("a file where the folder should be")
    assert rehearsal_of(RehearsedModel(knowing)).knows_silence


class _Broken(Around):
    """Its engine is gone when it is to read."""

    def read(self, *args, **options):
        raise EngineUnavailableError


def test_an_engine_that_does_not_answer_says_so_and_nothing_is_kept(folder):
    model = RehearsedModel(knowing)
    with pytest.raises(EngineUnavailableError):
        rehearsal_of(_Broken(model))
    assert not folder.exists()
    assert rehearsal_of(model).knows_silence


def test_an_engine_whose_rows_do_not_speak_is_asked_nothing(folder):
    found = rehearsal_of(SpeakingModel())
    assert found == Rehearsal()
    assert not found.knows_silence
    assert not found.is_toy
    assert found.verdict.startswith("not rehearsed")
    assert not folder.exists()


def test_two_threads_ask_a_model_once():
    model, found = RehearsedModel(knowing), []
    threads = [threading.Thread(target=lambda: found.append(rehearsal_of(model))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(model.asked) == len(set(model.asked))


def test_it_is_no_secret_what_is_asked_and_nothing_is_booked(tmp_path):
    from dpicl_rag import Ledger

    model = RehearsedModel(knowing)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="mail", epsilon=1.0, delta=1e-5)
        llm = PrivateContextLLM(model, ledger=ledger, corpus="mail")
        before = llm.budget_left()
        assert llm.rehearsal == rehearsal_of(model)
        assert llm.rehearsal.knows_silence
        assert llm.budget_left() == before


def test_a_plan_knows_a_model_by_its_name_once_it_was_asked(tmp_path, monkeypatch):
    model = RehearsedModel(knowing)
    assert unloaded("small") is None
    keep_name("small", model)
    assert not rehearsal_of(unloaded("small")).knows_silence  # it was named, and never rehearsed
    found = rehearsal_of(model)
    later(monkeypatch)
    assert rehearsal_of(unloaded("small")) == found
    keep_name(str(tmp_path), model)
    monkeypatch.chdir(tmp_path)
    assert unloaded(".").fingerprint == model.fingerprint  # a folder by whatever name


def test_a_plan_by_name_is_that_of_the_model(monkeypatch):
    model = RehearsedModel(knowing)
    keep_name("small", model)
    rehearsal_of(model)
    plans = [
        PrivateContextLLM(one, epsilon=4.0).plan([], Request.of("answer", question=question))
        for one in (unloaded("small"), UnloadedModel())
        for question in ("Is it open?", "Who runs it?")
    ]
    units = [plan.units_to_agree for plan in plans]
    assert units[0] < units[1] < units[2] == units[3]
