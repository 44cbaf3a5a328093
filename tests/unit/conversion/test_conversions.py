"""The process that converts: what readers planted there may not do, and that each costs a file."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl_rag.conversion import Conversions, NotConvertedError
from dpicl_rag.conversion.confinement import ProcessLimits
from dpicl_rag.conversion.conversions import Outcome
from tests.support import planted_readers

PLANTED = "tests.support.planted_readers"
SMALL = ProcessLimits(cpu_seconds=1, seconds=60, memory=2**29, text=2**20)
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone refuses system calls")


@pytest.fixture(scope="module")
def conversions() -> Iterator[Conversions]:
    with Conversions(SMALL, PLANTED) as made:
        yield made


def outcome(conversions: Conversions, kind: str, content: bytes = b"1234") -> Outcome:
    with pytest.raises(NotConvertedError) as caught:
        conversions.convert(kind, content)
    assert "1234" not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value.outcome


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("spin", Outcome.TIME),
        ("deaf", Outcome.TIME),
        ("exit", Outcome.DAMAGED),
        ("exit_well", Outcome.DAMAGED),
        ("raise", Outcome.DAMAGED),
        ("crash", Outcome.BROKE_OFF),
        ("eat", Outcome.MEMORY),
        ("fill", Outcome.DAMAGED),
        ("write", Outcome.DAMAGED),
        ("flood", Outcome.MUCH_TEXT),
        ("open_many", Outcome.DAMAGED),
        ("resolve", Outcome.DAMAGED),
        ("run", Outcome.DAMAGED),
    ],
)
def test_a_reader_that_misbehaves_costs_its_file(
    conversions: Conversions, kind: str, why: Outcome
) -> None:
    assert outcome(conversions, kind) is why
    assert conversions.convert("echo", b"the next") == b"the next"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["sleep", "silent", "sleeps"])
def test_a_reader_that_waits_costs_its_file(kind: str) -> None:
    with Conversions(replace(SMALL, seconds=0.7), PLANTED) as impatient:
        assert outcome(impatient, kind) is Outcome.TIME
        assert impatient.convert("echo", b"the next") == b"the next"


@pytest.mark.parametrize("kind", ["kill_parent", "thread"])
@ON_LINUX
def test_the_kernel_refuses_what_python_alone_would_let_through(
    conversions: Conversions, kind: str
) -> None:
    assert outcome(conversions, kind) is Outcome.DAMAGED


@ON_LINUX
def test_native_code_reaches_nothing_and_starts_nothing(conversions: Conversions) -> None:
    assert conversions.convert("bypass", b"") == b"socket -1, fork -1"


@ON_LINUX
def test_another_program_reaches_nothing(conversions: Conversions) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        port = str(listening.getsockname()[1]).encode()
        assert conversions.convert("client", port) == b"refused\n"
        with pytest.raises(TimeoutError):
            listening.accept()


def test_a_socket_is_not_opened(conversions: Conversions) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        port = str(listening.getsockname()[1]).encode()
        assert outcome(conversions, "connect", port) is Outcome.DAMAGED
        with pytest.raises(TimeoutError):
            listening.accept()


def test_planted_readers_do_what_they_are_for() -> None:
    """Without walls they get through, so the tests above can fail."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1]).encode()
        assert planted_readers.READERS["connect"].read(port) == b"connected"
        listening.accept()[0].close()
    assert planted_readers.READERS["run"].read(b"") == b"ran\n"
    assert planted_readers.READERS["remember"].read(b"a") != planted_readers.READERS[
        "remember"
    ].read(b"a")
    os.environ.pop("SEEN")


def test_a_file_is_read_as_if_it_were_alone(conversions: Conversions) -> None:
    for before in ("raise", "remember", "eat", "remember", "crash"):
        try:
            conversions.convert(before, b"other")
        except NotConvertedError:
            assert before != "remember"
        assert conversions.convert("remember", b"mine") == b"mine mine"
    with Conversions(SMALL, PLANTED) as fresh:
        assert fresh.convert("remember", b"mine") == b"mine mine"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("crash", Outcome.BROKE_OFF),
        ("raise", Outcome.DAMAGED),
        ("exit", Outcome.DAMAGED),
        ("eat", Outcome.MEMORY),
        pytest.param("spin", Outcome.TIME, marks=pytest.mark.heavy),
    ],
)
def test_one_of_a_batch_costs_itself(conversions: Conversions, fault: str, why: Outcome) -> None:
    others = [b"first", b"second", b"", b"last"]
    assert conversions.convert_all("does", others) == others
    for place in (0, 2, 4):
        batch = [*others[:place], fault.encode(), *others[place:]]
        answers = conversions.convert_all("does", batch)
        assert answers == [*others[:place], why, *others[place:]]
    assert conversions.convert_all("does", [fault.encode()] * 2) == [why] * 2


def test_what_has_its_share_of_time_in_a_batch_has_it_all(conversions: Conversions) -> None:
    """Together they take more than one may: the process ends, and each is read all the same."""
    batch = [b"work"] * 4
    assert conversions.convert_all("does", batch) == batch


def test_a_child_that_is_killed_in_a_batch_costs_none_of_it() -> None:
    with Conversions(SMALL, PLANTED) as conversions:
        calls: list[int] = []

        def kill() -> None:
            calls.append(1)
            if len(calls) == 3 and conversions._child is not None:
                conversions._child.kill()
                conversions._child.wait()

        conversions.while_waiting = kill
        batch = [b"a", b"b", b"c"]
        assert conversions.convert_all("does", batch) == batch


def test_who_stops_waiting_ends_the_child() -> None:
    def stop() -> None:
        raise InterruptedError

    with Conversions(SMALL, PLANTED) as stopped:
        stopped.convert("echo", b"")
        child = stopped._child
        assert child is not None
        stopped.while_waiting = stop
        with pytest.raises(InterruptedError):
            stopped.convert("sleep", b"")
        assert child.returncode is not None


@pytest.mark.heavy
def test_surroundings_are_empty_and_the_same_for_all(
    conversions: Conversions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPICL_RAG_SECRET", "1234")
    first = conversions.convert("surroundings", b"")
    assert first.startswith(b"[] [] ")
    assert first.endswith(b"dpicl-rag-")
    with Conversions(SMALL, PLANTED) as fresh:
        assert fresh.convert("surroundings", b"") == first
    assert conversions.convert("listed", b"") == b"0,1,2,3"


def test_what_a_library_prints_goes_nowhere(
    conversions: Conversions, capfd: pytest.CaptureFixture[str]
) -> None:
    assert conversions.convert("print", b"1234") == b"quiet"
    assert capfd.readouterr() == ("", "")


def test_large_files_come_through_whole(conversions: Conversions) -> None:
    content = bytes(range(256)) * 2**12
    assert conversions.convert("echo", content) == content
    assert conversions.convert("cat", content) == content
    assert outcome(conversions, "echo", content + b"x") is Outcome.MUCH_TEXT


def test_a_child_that_is_killed_costs_one_file_and_is_started_again() -> None:
    with Conversions(SMALL, PLANTED) as conversions:
        conversions.convert("echo", b"")
        child = conversions._child
        assert child is not None
        threading.Timer(0.3, child.kill).start()
        assert outcome(conversions, "sleep") is Outcome.BROKE_OFF
        assert conversions.convert("echo", b"again") == b"again"


@pytest.mark.one_in(3)
def test_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Conversions(SMALL, PLANTED) as conversions:
        assert not list(tmp_path.iterdir())
        assert outcome(conversions, "fill") is Outcome.DAMAGED
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert not list(folder.iterdir())
        child = conversions._child
        assert child is not None
    assert not list(tmp_path.iterdir())
    assert child.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, signal.SIG_DFL)


@pytest.mark.heavy
def test_no_folder_is_one_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with Conversions(SMALL, PLANTED) as conversions:
        assert outcome(conversions, "echo") is Outcome.BROKE_OFF
