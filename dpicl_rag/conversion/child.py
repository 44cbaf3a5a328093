"""The child process: it forks once for each file, so that no file meets what another left.

What is imported is imported before, so a fork is cheap. It has the same state for every file:
whether one came before, and what became of it, cannot be told.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import IO, Any, NoReturn

from dpicl_rag.conversion.confinement import confine
from dpicl_rag.conversion.frames import ANSWER, QUESTION
from dpicl_rag.conversion.outcomes import NotConvertedError, Outcome
from dpicl_rag.conversion.process_limits import Limits

_PIECE = 2**20
_HEAP_EXHAUSTED = 251  # the exit status of programs in Haskell
_POLL = 0.002
_ANSWER = 3  # what a library prints goes to 1


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of one kind of file.

    Attributes:
        read: From a file's bytes to what is returned. Raises NotConvertedError.
        program: A command that reads the file from its standard input in ``read``'s place, which
            then looks at the file before.
    """

    read: Callable[[bytes], bytes]
    program: tuple[str, ...] = ()


def serve(given: Mapping[str, Any]) -> None:
    """Convert files until there are no more.

    Args:
        given: ``limits``, ``readers`` (the module that has them) and ``folder``.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    limits = Limits(**given["limits"])
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for place in (0, 1, 2):  # what a library prints goes nowhere
        os.dup2(null, place)
    readers: Mapping[str, Reader] = import_module(given["readers"]).READERS
    while len(head := questions.read(QUESTION.size)) == QUESTION.size:
        named, size = QUESTION.unpack(head)
        reader = readers[questions.read(named).decode()]
        with tempfile.TemporaryFile(dir=given["folder"]) as content:
            while size:
                piece = questions.read(min(size, _PIECE))
                if not piece:
                    return
                content.write(piece)
                size -= len(piece)
            content.seek(0)
            outcome, converted = _convert(reader, content, given["folder"], limits)
        answers.write(ANSWER.pack(outcome, len(converted)) + converted)
        answers.flush()


def _convert(
    reader: Reader, content: IO[bytes], folder: str, limits: Limits
) -> tuple[Outcome, bytes]:
    own = tempfile.mkdtemp(dir=folder)
    answer, writing = os.pipe()
    process = os.fork()
    if not process:
        _read_file(reader, content.fileno(), writing, own, limits)
    os.close(writing)
    with suppress(OSError):  # both do it, whoever is first
        os.setpgid(process, process)
    deadline = time.monotonic() + limits.seconds
    status: int | None = None
    try:
        converted, is_whole = _listen(answer, limits.text, deadline)
        if is_whole:
            status = _ended(process, deadline)
    finally:
        os.close(answer)
        if status is None:
            with suppress(OSError):
                os.killpg(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process, 0)
        shutil.rmtree(own, ignore_errors=True)
    if len(converted) > limits.text:
        return Outcome.MUCH_TEXT, b""
    outcome = Outcome.TIME if status is None else _outcome(os.waitstatus_to_exitcode(status))
    return outcome, converted if outcome is Outcome.CONVERTED else b""


def _listen(answer: int, most: int, deadline: float) -> tuple[bytes, bool]:
    """What a process writes until it is silent for good, and whether it is."""
    pieces: list[bytes] = []
    left = most + 1
    while left > 0 and (seconds := deadline - time.monotonic()) > 0:
        if not select.select([answer], [], [], seconds)[0]:
            break
        piece = os.read(answer, min(left, _PIECE))
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces), False


def _ended(process: int, deadline: float) -> int | None:
    """The status with which a process ends before a time."""
    while time.monotonic() < deadline:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return status
        time.sleep(_POLL)
    return None


def _outcome(code: int) -> Outcome:
    if code == -signal.SIGXCPU:
        return Outcome.TIME
    if code == _HEAP_EXHAUSTED:
        return Outcome.MEMORY
    if code < 0:
        return Outcome.BROKE_OFF
    return Outcome(code) if code in list(Outcome) else Outcome.DAMAGED


def _read_file(reader: Reader, content: int, answer: int, folder: str, limits: Limits) -> NoReturn:
    """Read one file in this process, and end it."""
    outcome = Outcome.DAMAGED
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(folder)
        _leave_open(content, answer)
        is_program = bool(reader.program)
        confine(runs_program=is_program)
        limits.apply(threads=is_program)
        with os.fdopen(0, "rb", closefd=False) as file:
            converted = reader.read(file.read())
        if is_program:
            os.lseek(0, 0, os.SEEK_SET)
            os.dup2(_ANSWER, 1)
            os.close(_ANSWER)
            os.execve(reader.program[0], reader.program, {})  # noqa: S606 - no shell is wanted
        with os.fdopen(_ANSWER, "wb", closefd=False) as pipe:
            pipe.write(converted)
        outcome = Outcome.CONVERTED
    except NotConvertedError as error:
        outcome = error.outcome
    except MemoryError:
        outcome = Outcome.MEMORY
    except BaseException:  # whatever a library does with a stranger's file, this process ends
        outcome = Outcome.DAMAGED
    finally:
        os._exit(outcome)


def _leave_open(content: int, answer: int) -> None:
    """Keep two files open, under these numbers, and none of the others."""
    content, answer = os.dup(content), os.dup(answer)
    null = os.open(os.devnull, os.O_RDWR)
    # All four numbers are above those that they get: the child has these open itself.
    for number, place in ((content, 0), (null, 1), (null, 2), (answer, _ANSWER)):
        os.dup2(number, place)
    os.closerange(_ANSWER + 1, os.sysconf("SC_OPEN_MAX"))
