"""Replies are kept for a public time, whatever else is kept, and come back as they were."""

import itertools
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from types import SimpleNamespace

import pytest

from dpicl_rag.errors import ConfigurationError, EngineUnavailableError
from dpicl_rag.language_models.readers import concurrent_reader
from dpicl_rag.language_models.readers.concurrent_reader import PUBLIC_PROMPT, ConcurrentReader
from dpicl_rag.language_models.readers.reply_cache import CHARACTERS, ReplyCache
from tests.support.fresh_python import run_python

DAY = 86_400.0


@pytest.fixture(params=["memory", "disk"])
def cache(request, tmp_path):
    found = ReplyCache(10.0, tmp_path / "replies" / "mail" if request.param == "disk" else None)
    yield found
    found.close()


def test_a_reply_comes_back_for_its_prompt_and_its_reader_alone(cache):
    cache.put("one", "prompt", "reply", 100.0)
    assert cache.get("one", "prompt", 101.0) == "reply"
    assert cache.get("one", "other", 101.0) is None
    assert cache.get("two", "prompt", 101.0) is None
    assert cache.get("onep", "rompt", 101.0) is None


def test_it_stands_until_a_public_epoch_ends(cache):
    """Whenever in the epoch it was asked: epochs of ten seconds begin at 100 and at 110."""
    for asked in (100.0, 109.9):
        cache.put("one", f"at {asked}", "reply", asked)
        assert cache.get("one", f"at {asked}", 109.9) == "reply"
        assert cache.get("one", f"at {asked}", 110.0) is None
    cache.put("one", "prompt", "later", 110.0)
    assert cache.get("one", "prompt", 110.0) == "later"


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_of_two_that_ask_at_once_both_have_the_reply_that_came_first(cache, order):
    stands = [cache.put("one", "prompt", f"of {number}", 100.0 + number) for number in order]
    assert stands == [f"of {order[0]}"] * 2
    assert cache.get("one", "prompt", 103.0) == f"of {order[0]}"
    assert cache.put("one", "prompt", "of the next epoch", 110.0) == "of the next epoch"


def test_of_two_processes_that_ask_at_once_too(tmp_path):
    caches = [ReplyCache(10.0, tmp_path / "replies") for _ in range(2)]
    said = [one.put("one", "prompt", f"of {at}", 100.0) for at, one in enumerate(caches)]
    assert said == ["of 0", "of 0"]
    assert [one.get("one", "prompt", 100.0) for one in caches] == said
    for one in caches:
        one.close()


@pytest.mark.parametrize(("reply", "kept"), [("", ""), ("x" * 5000, "x" * CHARACTERS)])
def test_every_reply_is_kept_also_one_that_is_empty_or_long(cache, reply, kept):
    assert cache.put("one", "prompt", reply, 100.0) == kept
    assert cache.get("one", "prompt", 100.0) == kept


def test_a_unit_is_forgotten_and_all_others_stay(cache):
    cache.put("one", "of a", "reply", 100.0, ["a"])
    cache.put("one", "of b", "reply", 100.0, ["b"])
    cache.put("one", "of a and b", "reply", 100.0, ["a", "b"])
    cache.put("one", "of a, then b", "reply", 100.0, ["a"])
    cache.get("one", "of a, then b", 101.0, ["b"])
    cache.put("one", "of nobody", "reply", 100.0)
    cache.keep_only(["b", "c"])
    left = ["of b", "of a and b", "of a, then b", "of nobody"]
    found = {one: cache.get("one", one, 101.0) for one in ["of a", *left]}
    assert found == {"of a": None, **dict.fromkeys(left, "reply")}
    cache.keep_only([])
    found = {one: cache.get("one", one, 101.0) for one in left}
    assert found == {**dict.fromkeys(left), "of nobody": "reply"}


def test_what_is_forgotten_is_overwritten_on_disk_and_no_unit_is_named_there(tmp_path):
    cache = ReplyCache(DAY, tmp_path / "replies")
    cache.put("one", "prompt", "quillon-vexatrix", 1.0, ["ida@example.org"])
    written = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    assert b"quillon" in written
    assert b"ida" not in written
    owner = ReplyCache(DAY, tmp_path / "replies")  # beside a server that has it open
    owner.keep_only(["jon@example.org"])
    owner.close()
    assert b"quillon" not in b"".join(one.read_bytes() for one in tmp_path.iterdir())
    cache.close()


def test_any_text_comes_back(cache):
    for text in ("\ud800 lone", "\x00 zero", "\u2028 line\n", "é"):
        cache.put(text, text, text.encode("utf-8", "replace").decode(), 1.0)
        assert cache.get(text, text, 1.0) == text.encode("utf-8", "replace").decode()


def test_it_has_a_time():
    with pytest.raises(ConfigurationError):
        ReplyCache(0)


def test_it_shows_nothing(cache):
    cache.put("one", "prompt", "reply", 100.0)
    assert repr(cache) == "ReplyCache()"


# On disk.


def test_another_process_finds_it(tmp_path):
    file = tmp_path / "replies"
    first = ReplyCache(DAY, file)
    first.put("one", "prompt", "reply", 100.0)
    code = (
        "import sys; from dpicl_rag.language_models.readers.reply_cache import ReplyCache\n"
        "print(ReplyCache(86400.0, sys.argv[1]).get('one', 'prompt', 101.0))"
    )
    assert run_python(code, file).stdout == "reply\n"
    first.close()


def test_its_owner_alone_may_read_the_file(tmp_path):
    file = tmp_path / "folder" / "replies"
    ReplyCache(DAY, file).put("one", "prompt", "reply", 1.0)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_what_expired_is_overwritten_on_disk(tmp_path):
    file = tmp_path / "replies"
    cache = ReplyCache(10.0, file)
    cache.put("one", "prompt", "quillon-vexatrix", 1.0)
    cache.forget_expired(5.0)
    assert cache.get("one", "prompt", 5.0) is not None
    cache.forget_expired(11.0)
    cache.close()
    assert b"quillon" not in b"".join(one.read_bytes() for one in tmp_path.iterdir())


def test_a_reply_that_was_changed_on_disk_is_absent(tmp_path):
    file = tmp_path / "replies"
    cache = ReplyCache(DAY, file)
    cache.put("one", "prompt", "reply", 1.0)
    cache.close()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE reply SET text = 'other'")
    assert ReplyCache(DAY, file).get("one", "prompt", 1.0) is None


def no_database(file):
    file.write_bytes(b"no database" * 1000)


def of_another_program(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE t (a)")


@pytest.mark.parametrize("spoil", [no_database, of_another_program, os.mkdir])
def test_a_file_that_cannot_be_used_is_done_without(tmp_path, spoil):
    file = tmp_path / "replies"
    spoil(file)
    cache = ReplyCache(DAY, file)
    cache.put("one", "prompt", "reply", 1.0)
    assert cache.get("one", "prompt", 1.0) == "reply"


def test_a_file_that_is_deleted_meanwhile_is_done_without(tmp_path):
    file = tmp_path / "replies"
    cache = ReplyCache(DAY, file)
    cache.put("one", "prompt", "reply", 1.0)
    for one in tmp_path.iterdir():
        one.unlink()
    cache.put("one", "other", "reply", 1.0)
    assert cache.get("one", "other", 1.0) == "reply"
    assert not file.exists()  # what somebody deleted is not written again


def test_what_a_killed_process_has_kept_stays(tmp_path):
    file = tmp_path / "replies"
    code = (
        "import sys; from dpicl_rag.language_models.readers.reply_cache import ReplyCache\n"
        "cache = ReplyCache(86400.0, sys.argv[1])\n"
        "for n in range(10**6): cache.put('one', str(n), f'reply {n}', 1.0); print(n, flush=True)"
    )
    command = [sys.executable, "-c", code, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        last = [writer.stdout.readline() for _ in range(20)][-1]
        writer.send_signal(signal.SIGKILL)
    cache = ReplyCache(DAY, file)
    assert [cache.get("one", str(n), 1.0) for n in range(int(last) + 1)] == [
        f"reply {n}" for n in range(int(last) + 1)
    ]


# In a reader.


class Asked:
    """Draws each reply, and counts what it is asked."""

    def __init__(self):
        self.prompts = []
        self._coins = random.Random(5)
        self._lock = threading.Lock()

    def __call__(self, prompt):
        with self._lock:
            self.prompts.append(prompt)
            return f"{prompt} {self._coins.random()}"


def test_a_prompt_is_asked_once_by_a_reader():
    asked = Asked()
    reader = ConcurrentReader(asked, "made up")
    first = reader.replies(["a", "b"])
    assert reader.replies(["b", "c", "a"]) == [first[1], *reader.replies(["c"]), first[0]]
    assert sorted(one for one in asked.prompts if len(one) == 1) == ["a", "b", "c"]


@pytest.mark.parametrize("kept", [True, False])
def test_equal_prompts_have_one_reply(kept):
    """Of units that say the same, the second may come later: its reply is the same either way."""
    asked = Asked()
    reader = ConcurrentReader(asked, "made up", concurrency=4)
    if not kept:
        reader = reader.with_cache(None)
    first, second, third = reader.replies(["a", "a", "b"])
    assert first == second != third
    assert Counter(asked.prompts)["a"] == 1


def test_a_provider_that_is_down_is_told_also_where_all_is_kept():
    asked, down = Asked(), []

    def call(prompt):
        if down:
            raise ConnectionError
        return asked(prompt)

    reader = ConcurrentReader(call, "made up", deadline=0.2)
    reader.replies(["a"])
    down.append(True)
    with pytest.raises(EngineUnavailableError):
        reader.replies(["a"])


def test_what_was_read_before_a_failure_is_not_read_again():
    asked, down = Asked(), []

    def call(prompt):
        if down and prompt in ("b", PUBLIC_PROMPT):
            raise ConnectionError
        return asked(prompt)

    reader = ConcurrentReader(call, "made up", deadline=0.1, concurrency=1)
    reader.replies([])
    down.append(True)
    with pytest.raises(EngineUnavailableError):
        reader.replies(["a", "b"])
    down.clear()
    reader.replies(["a", "b"])
    assert asked.prompts.count("a") == 1


DOCUMENT = "The writer is content."


def counts(units, clock, times):
    """What a reader that draws its replies says of unit b, count after count.

    Args:
        units: Those that are there at each count; all say the same.
        clock: Set to the time of each count.
        times: Of the counts.
    """
    reader = ConcurrentReader(Asked(), "made up").with_cache(ReplyCache(10.0))
    said = []
    for there, now in zip(units, times, strict=True):
        clock.now = now
        replies = reader.replies([DOCUMENT] * len(there), None, there)
        said.append(dict(zip(there, replies, strict=True)).get("b"))
    return said


@pytest.mark.parametrize("times", list(itertools.combinations((0, 3, 8, 11, 14, 21), 3)))
def test_when_a_reply_is_drawn_anew_follows_from_the_clock_alone(monkeypatch, times):
    """Unit b says what unit a says, and comes after the first count.

    Were a reply to stand from the time when it was first asked, a would make b's second and third
    one differ, which without a they cannot.
    """
    clock = SimpleNamespace(monotonic=time.monotonic, time=lambda: clock.now)
    monkeypatch.setattr(concurrent_reader, "time", clock)
    anew = []
    for first in (["a"], []):
        _, second, third = counts([first, [*first, "b"], [*first, "b"]], clock, times)
        anew.append(second != third)
    assert anew == [times[1] // 10 != times[2] // 10] * 2


def test_when_another_is_forgotten_no_reply_is_drawn_anew():
    histories = []
    for others in ([], ["a"], ["b's twin"]):
        cache = ReplyCache()
        reader = ConcurrentReader(Asked(), "made up").with_cache(cache)
        prompts = {"a": "a", "b's twin": "b", "b": "b"}
        before = reader.replies([prompts[one] for one in [*others, "b"]], None, [*others, "b"])
        if others:
            cache.keep_only(["b"])
        histories.append(before[-1] == reader.replies(["b"], None, ["b"])[0])
    assert histories == [True] * 3


def history(reader, asked, questions):
    """What unit b is said to say, question after question."""
    said = []
    for prompts in questions:
        replies = dict(zip(prompts, reader.replies(prompts), strict=True))
        said.append(asked.prompts.count("b") if "b" in replies else None)
    return said


def test_when_a_unit_is_read_anew_follows_from_no_other():
    """With any others beside it, also such that say the same, b is read at the same questions."""
    histories = []
    for others in itertools.product(([], ["a"], ["b"], [str(n) for n in range(40)]), repeat=2):
        asked = Asked()
        reader = ConcurrentReader(asked, "made up")
        histories.append(history(reader, asked, [[*own, "b"] for own in (*others, [])]))
    assert histories == [[1, 1, 1]] * len(histories)


def test_a_cache_that_gives_up_the_oldest_for_want_of_room_is_seen(monkeypatch):
    """A planted fault: whether b is read anew then follows from how many others there are."""
    put = ReplyCache.put

    def of_few(self, *given):
        put(self, *given)
        while len(self._entries) > 10:
            del self._entries[next(iter(self._entries))]

    monkeypatch.setattr(ReplyCache, "put", of_few)
    with pytest.raises(AssertionError):
        test_when_a_unit_is_read_anew_follows_from_no_other()
