"""The audit of channels finds what it should, and nothing in the path as it is."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice

import pytest

from dpicl_rag import Document
from dpicl_rag.auditing import Subject, audit_channels, channels
from dpicl_rag.auditing.channels import Channels, differences
from dpicl_rag.language_models.openai_compatible.http_client import begin_in_loop
from tests.support.bucket_embedder import BucketEmbedder

pytestmark = pytest.mark.usefixtures("frozen")

NOTES = [Document(f"The depot opens at seven, note {n}.", f"unit {n}") for n in range(3)]
SUBJECT = {"question": "When does the depot open?", "settings": {"max_tokens": 2}}


@pytest.fixture
def few_pairs(monkeypatch):
    """Two pairs of neighbours alone: a unit more, and one in the place of another."""
    every = channels.neighbours_by_channel
    monkeypatch.setattr(channels, "neighbours_by_channel", lambda notes: islice(every(notes), 2))


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("few_pairs")
@pytest.mark.parametrize("embedder", [None, BucketEmbedder()], ids=["list", "store"])
@pytest.mark.parametrize("labels", [(), ("yes", "no")], ids=["answer", "label"])
def test_nearest_neighbours_cannot_be_told_apart(tiny_model, embedder, labels):
    found = audit_channels(Subject(tiny_model, **SUBJECT, labels=labels), NOTES, embedder=embedder)
    assert found.holds
    assert found.pairs == 2


@pytest.mark.heavy
@pytest.mark.parametrize("embedder", [None, BucketEmbedder()], ids=["list", "store"])
@pytest.mark.parametrize("labels", [(), ("yes", "no")], ids=["answer", "label"])
def test_neighbours_cannot_be_told_apart(tiny_model, embedder, labels):
    found = audit_channels(Subject(tiny_model, **SUBJECT, labels=labels), NOTES, embedder=embedder)
    assert found.found == ()
    assert found.holds
    assert found.pairs >= 10


class Talking:
    """The tiny model, telling how many documents it reads."""

    def __init__(self, model, tell) -> None:
        self._model = model
        self._tell = tell

    def __getattr__(self, name):
        return getattr(self._model, name)

    def copying(self, bias, *, public=False):
        return Talking(self._model.copying(bias, public=public), self._tell)

    def read(self, prefix, inputs, **options):
        if "on_progress" in options:  # its rehearsal reads public documents
            self._tell(len(inputs), options["on_progress"])
        return self._model.read(prefix, inputs, **options)


def refuse(count: int, progress: object) -> None:
    if count > 4:
        raise ValueError(f"{count} documents")


def warn(count: int, progress: object) -> None:
    warnings.warn(f"{count} documents", UserWarning, stacklevel=1)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("tell", "place"),
    [
        (lambda count, _: logging.getLogger("transformers").debug("read %d", count), "log transf"),
        (lambda count, _: sys.stdout.write(str(count)), "stdout"),
        (lambda count, progress: progress and progress(1 / count), "progress"),
        (warn, "warning"),
        (refuse, "error"),
    ],
)
@pytest.mark.filterwarnings("ignore:. documents")
@pytest.mark.usefixtures("few_pairs")
def test_a_count_that_is_told_is_found(tiny_model, tell, place):
    logging.getLogger("transformers").propagate = False  # as that library has it
    subject = Subject(Talking(tiny_model, tell), **SUBJECT)
    found = audit_channels(subject, NOTES)
    assert not found.holds
    assert any(one.startswith(f"a unit more: {place}") for one in found.found)


@pytest.mark.usefixtures("few_pairs")
def test_an_asker_of_the_answer_is_told_no_more_than_its_numbers(tiny_model):
    subject = Subject(tiny_model, **SUBJECT)
    found = audit_channels(replace(subject, settings={"max_tokens": 2, "groups": 2}), NOTES)
    assert found.holds


def test_clients_that_close_by_themselves_are_not_heard():
    async def close():
        await asyncio.sleep(0.05)
        logging.getLogger("a client").warning("closed")

    begin_in_loop(close())
    heard = Channels()
    with heard.listening():
        time.sleep(0.1)
    assert not heard.told


def test_loggers_and_handlers_are_as_before():
    logger, root = logging.getLogger("some.library"), logging.getLogger()
    logger.setLevel(logging.ERROR)
    handler = logging.NullHandler()
    logger.addHandler(handler)
    before = (root.level, list(root.handlers), logging.root.manager.disable)
    channels = Channels()
    with channels.listening():
        logger.debug("heard")
    assert channels.told["log some.library"] == {"DEBUG heard": 1}
    assert (root.level, list(root.handlers), logging.root.manager.disable) == before
    assert (logger.level, logger.handlers) == (logging.ERROR, [handler])
    logger.removeHandler(handler)


def test_what_chance_and_the_clock_decide_is_left_out():
    one, other = Channels(), Channels()
    one.see("place", "at 0x7f00aa, 2026-01-02T03:04:05.6Z, took 12ms, 3 texts")
    other.see("place", "at 0x7f00bb, 2026-01-02T03:04:07.1Z, took 13ms, 3 texts")
    one.see("place", "lock 140463028217424 on a file")
    other.see("place", "lock 94463028217424 on a file")  # of the heap
    assert differences(one, other) == []
    other.see("place", "4 texts")
    assert differences(one, other) == ["place"]


def test_what_several_threads_tell_at_once_is_all_recorded():
    channels = Channels()

    class Slow(int):
        """A count that takes its time: without a lock, another thread's word comes between."""

        def __add__(self, other: int) -> Slow:
            time.sleep(0.01)
            return Slow(int(self) + other)

    channels.told["place"]["word"] = Slow(0)
    with ThreadPoolExecutor(4) as threads:
        for _ in range(8):
            threads.submit(channels.see, "place", "word")
    assert channels.told["place"]["word"] == 8
