"""A reader whose replies follow from other calls is told from one whose replies do not."""

from __future__ import annotations

import threading

import pytest

from dpicl_rag.errors import ConfigurationError, EngineUnavailableError, ModelError
from dpicl_rag.language_models.readers.as_reader import as_reader, independent
from dpicl_rag.language_models.readers.concurrent_reader import PUBLIC_PROMPT, ConcurrentReader
from tests.support.fake_chat import FakeChat
from tests.support.scripted_reader import ScriptedReader, document_of


def said(prompt):
    """The document's first sentence."""
    return "OK" if prompt == PUBLIC_PROMPT else f"{document_of(prompt).partition('.')[0]}."


@pytest.mark.parametrize("calls", [32, 33, 64, 100])
def test_a_reader_whose_replies_are_their_own(calls):
    reader, done = ScriptedReader(said), []
    assert independent(reader, calls=calls, on_progress=lambda *step: done.append(step))
    assert len(reader.asked) == calls // 4 * 4
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]
    documents = [document_of(prompt) for prompt in reader.asked]
    assert len({len(text) for text in documents}) >= min(calls // 4 - 2, 14)
    assert len({said(prompt) for prompt in reader.asked}) == calls // 4 - 1
    orders = [documents[at : at + calls // 4] for at in range(0, len(documents), calls // 4)]
    assert len({order[0] for order in orders}) == 1  # alone
    assert len({tuple(order[1:]) for order in orders}) == 4
    assert all(sorted(order) == sorted(orders[0]) for order in orders)


@pytest.mark.parametrize("concurrency", [1, 8, 100])
def test_calls_that_run_together(concurrency):
    assert independent(ConcurrentReader(said, "own", concurrency=concurrency))


def test_replies_that_follow_from_how_many_calls_there_are_are_seen():
    class Batches(ScriptedReader):
        def replies(self, prompts, on_progress=None):
            return [f"{reply} {len(prompts)}" for reply in super().replies(prompts)]

    assert not independent(Batches(said))


def test_replies_that_follow_from_how_many_calls_run_are_seen():
    running, changed = 0, threading.Condition()

    def crowded(prompt):
        nonlocal running
        with changed:
            running += 1
            changed.notify_all()
            together = changed.wait_for(lambda: running > 1, timeout=0.05)
            running -= 1
        return f"{said(prompt)}{' together' * together}"

    assert not independent(as_reader(crowded))


@pytest.mark.parametrize("likely", [1, 20], ids=["each call", "one call in twenty"])
def test_a_history_that_calls_share_is_seen(likely):
    history = []

    def remembers(prompt):
        history.append(said(prompt))
        return history[-2] if len(history) > 1 and len(history) % likely == 0 else history[-1]

    assert not independent(ConcurrentReader(remembers, "shared", concurrency=1))


def test_one_unequal_reply_in_the_last_round_is_seen():
    calls = []

    def fails(prompt):
        calls.append(prompt)
        return "NOTHING" if len(calls) == 64 else said(prompt)

    assert not independent(ScriptedReader(fails))


def test_replies_that_are_drawn_are_not_equal():
    drawn = iter(range(1000))
    assert not independent(ScriptedReader(lambda prompt: f"{said(prompt)} {next(drawn)}"))


def test_a_reader_that_says_nothing_is_not_called_equal():
    with pytest.raises(ModelError, match="says nothing") as caught:
        independent(ScriptedReader(lambda prompt: "NOTHING"))
    assert not isinstance(caught.value, EngineUnavailableError)


@pytest.mark.parametrize("calls", [31, 0, -1])
def test_too_few_calls_are_refused_before_any(calls):
    reader = ScriptedReader(said)
    with pytest.raises(ConfigurationError, match="32 calls"):
        independent(reader, calls=calls)
    assert reader.asked == []


def test_a_provider_that_is_down_is_unavailable():
    with FakeChat(said) as fake:
        address = fake.address(deadline=0.2)
    with pytest.raises(EngineUnavailableError):
        independent(as_reader(address))
