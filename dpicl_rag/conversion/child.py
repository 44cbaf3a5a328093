"""The child process: it forks for each batch of files, so that none meets what others left.

What is imported is imported before, so a fork is cheap. It has the same state for every batch:
whether one came before, and what became of it, cannot be told. A process that breaks off within a
batch is followed by one that begins with the file at which it did. So only what a file does to a
process of its own decides what becomes of it.
"""

from __future__ import annotations

import gc
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import IO, Any, NamedTuple, NoReturn

from dpicl_rag.conversion.confinement import ProcessLimits, confine
from dpicl_rag.conversion.conversions import ANSWER, QUESTION, SIZE, NotConvertedError, Outcome

_PIECE = 2**20
_HEAP_EXHAUSTED = 251  # the exit status of programs in Haskell
_POLL = 0.002
_ANSWER = 3  # what a library prints goes to 1


@dataclass(frozen=True, slots=True)
class FileReader:
    """A reader of one kind of file.

    Attributes:
        read: From a file's bytes to what is returned: a function of them alone, also where it has
            read others before. Raises NotConvertedError.
        program: A command that reads one file from its standard input in ``read``'s place, which
            then looks at the file before.
    """

    read: Callable[[bytes], bytes]
    program: tuple[str, ...] = ()


def serve(setup: Mapping[str, Any]) -> None:
    """Convert files until there are no more.

    Args:
        setup: ``limits``, ``readers`` (the module that has them) and ``folder``.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    limits = ProcessLimits(**setup["limits"])
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for place in (0, 1, 2):  # what a library prints goes nowhere
        os.dup2(null, place)
    readers: Mapping[str, FileReader] = import_module(setup["readers"]).READERS
    gc.freeze()  # what was imported is looked at, and copied, in no process that forks from here
    while len(head := questions.read(QUESTION.size)) == QUESTION.size:
        named, count = QUESTION.unpack(head)
        reader = readers[questions.read(named).decode()]
        with tempfile.TemporaryFile(dir=setup["folder"], buffering=0) as content:
            sizes = [_keep(questions, content) for _ in range(count)]
            work = _FileWork(reader, content.fileno(), questions.fileno(), setup["folder"], limits)
            for outcome, converted in _convert(work, sizes):
                answers.write(ANSWER.pack(outcome, len(converted)) + converted)
                answers.flush()


def _keep(questions: IO[bytes], content: IO[bytes]) -> int:
    """Copy one file, and tell its bytes."""
    (size,) = SIZE.unpack(questions.read(SIZE.size))
    left = int(size)
    while left:
        piece = questions.read(min(left, _PIECE))
        if not piece:
            sys.exit(0)
        left -= len(piece)
        while piece:  # a raw file may take a part
            piece = piece[content.write(piece) :]
    return int(size)


class _FileWork(NamedTuple):
    """Work of a forked process: a reader, numbers of the files and of the questions."""

    reader: FileReader
    content: int
    questions: int
    folder: str
    limits: ProcessLimits


def _convert(work: _FileWork, sizes: Sequence[int]) -> Iterator[tuple[Outcome, bytes]]:
    """Outcomes of files, in their order."""
    done = 0
    while done < len(sizes):
        os.lseek(work.content, sum(sizes[:done]), os.SEEK_SET)
        left = sizes[done : done + 1] if work.reader.program else sizes[done:]
        ended, count = yield from _in_one_process(work, left)
        if not count:
            yield Outcome.DAMAGED if ended is Outcome.CONVERTED else ended, b""
        done += count or 1


def _in_one_process(
    work: _FileWork, sizes: Sequence[int]
) -> Generator[tuple[Outcome, bytes], None, tuple[Outcome, int]]:
    """Convert files until the process breaks off; how it ended, and after how many of them."""
    reader, content, _, folder, limits = work
    working = tempfile.mkdtemp(dir=folder)
    answer, writing = os.pipe()
    pipe = _Pipe(answer, work.questions)
    process = os.fork()
    if not process:
        _read_files(reader, content, sizes, writing, working, limits)
    os.close(writing)
    with suppress(OSError):  # both do it, whoever is first
        os.setpgid(process, process)
    status: Outcome | None = None
    count = 0
    held: tuple[Outcome, bytes] | None = None  # until the process goes on, or has ended well
    deadline = time.monotonic() + limits.seconds
    try:
        if reader.program:  # it knows no frames
            held, count = (Outcome.CONVERTED, pipe.listen(limits.text, deadline)), 1
        while count < len(sizes) and (frame := pipe.frame(limits.text, deadline)):
            if held is not None:
                yield held
            held, count = frame, count + 1
            deadline = time.monotonic() + limits.seconds
        if pipe.listen(1, deadline):
            ended = Outcome.MUCH_TEXT
        else:
            status = _ended(process, deadline, limits)
            ended = Outcome.TIME if status is None else status
        if count == len(sizes) and ended is not Outcome.CONVERTED:
            count -= 1
        elif held is not None:
            yield held
    finally:
        os.close(answer)
        if status is None:
            with suppress(OSError):
                os.killpg(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process, 0)
        shutil.rmtree(working, ignore_errors=True)
    return ended, count


class _Pipe(NamedTuple):
    """The pipe that a process writes to, and that of questions: none comes while it writes."""

    answer: int
    questions: int

    def frame(self, most: int, deadline: float) -> tuple[Outcome, bytes] | None:
        """The answer for one file; None where the process breaks off within it."""
        head = self.listen(ANSWER.size, deadline)
        if len(head) < ANSWER.size:
            return None
        outcome, size = ANSWER.unpack(head)
        converted = self.listen(min(size, most), deadline)
        return (Outcome(outcome), converted) if len(converted) == size else None

    def listen(self, size: int, deadline: float) -> bytes:
        """So many bytes; fewer where the process is silent until then, or for good."""
        pieces: list[bytes] = []
        while size > 0 and (seconds := deadline - time.monotonic()) > 0:
            ready = select.select(self, [], [], seconds)[0]
            if self.questions in ready:  # whoever asked is gone
                sys.exit(0)
            piece = os.read(self.answer, min(size, _PIECE)) if ready else b""
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _ended(process: int, deadline: float, limits: ProcessLimits) -> Outcome | None:
    """The outcome of a process that ends before a time; None where it does not."""
    while time.monotonic() < deadline:
        found, status, used = os.wait4(process, os.WNOHANG)
        if found:
            return _outcome(
                os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, limits
            )
        time.sleep(_POLL)
    return None


def _outcome(code: int, seconds: float, limits: ProcessLimits) -> Outcome:
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and seconds >= limits.cpu_seconds):
        return Outcome.TIME
    if code == _HEAP_EXHAUSTED:
        return Outcome.MEMORY
    if code < 0:
        return Outcome.BROKE_OFF
    return Outcome(code) if code in list(Outcome) else Outcome.DAMAGED


def _read_files(
    reader: FileReader,
    content: int,
    sizes: Sequence[int],
    answer: int,
    folder: str,
    limits: ProcessLimits,
) -> NoReturn:
    """Read files in this process, and end it: after the last, or at one that does not end well."""
    outcome = Outcome.DAMAGED
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(folder)
        _leave_open(content, answer)
        is_program = bool(reader.program)
        confine(runs_program=is_program)
        limits.apply(threads=is_program)
        with (
            os.fdopen(0, "rb", closefd=False, buffering=0) as file,
            os.fdopen(_ANSWER, "wb", closefd=False) as pipe,
        ):
            if is_program:
                start = os.lseek(0, 0, os.SEEK_CUR)
                reader.read(_whole(file, sizes[0]))
                os.lseek(0, start, os.SEEK_SET)
                os.dup2(_ANSWER, 1)
                os.close(_ANSWER)
                os.execve(reader.program[0], reader.program, {})  # noqa: S606 - no shell is wanted
            for size in sizes:
                file_outcome, converted = _read_file(reader, _whole(file, size), limits)
                pipe.write(ANSWER.pack(file_outcome, len(converted)) + converted)
                pipe.flush()
        outcome = Outcome.CONVERTED
    except NotConvertedError as error:
        outcome = error.outcome
    except MemoryError:
        outcome = Outcome.MEMORY
    except BaseException:  # whatever a library does with a stranger's file, this process ends
        outcome = Outcome.DAMAGED
    finally:
        os._exit(outcome)


def _whole(file: IO[bytes], size: int) -> bytes:
    pieces = []
    while size and (piece := file.read(min(size, 2**30))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _read_file(reader: FileReader, content: bytes, limits: ProcessLimits) -> tuple[Outcome, bytes]:
    try:
        converted = reader.read(content)
    except NotConvertedError as error:
        return error.outcome, b""
    return (
        (Outcome.MUCH_TEXT, b"") if len(converted) > limits.text else (Outcome.CONVERTED, converted)
    )


def _leave_open(content: int, answer: int) -> None:
    """Keep two files open, under these numbers, and none of the others."""
    content, answer = os.dup(content), os.dup(answer)
    null = os.open(os.devnull, os.O_RDWR)
    # All four numbers are above those that they get: the child has these open itself.
    for number, place in ((content, 0), (null, 1), (null, 2), (answer, _ANSWER)):
        os.dup2(number, place)
    os.closerange(_ANSWER + 1, os.sysconf("SC_OPEN_MAX"))
