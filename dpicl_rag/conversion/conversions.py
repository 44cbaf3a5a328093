"""Conversion of files to text, by a child process that is started at the first of them."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from struct import Struct
from typing import IO, Self

from dpicl_rag.conversion.confinement import ProcessLimits

PANDOC_KINDS = ("docx", "pptx", "odt", "epub")
"""Kinds that pandoc reads, and calls so."""

_PACKAGES = {
    **dict.fromkeys(PANDOC_KINDS, "pypandoc"),
    "pdf": "pypdf",
    "sheet": "python_calamine",
    "rows": "python_calamine",
    "rtf": "striprtf",
    "msg": "olefile",
}

# Heads of the frames that go to the child and come back, in the machine's byte order.
QUESTION = Struct("=BI")
"""Bytes of the name of the kind, and how many files; the name and the files follow."""
SIZE = Struct("=Q")
"""Bytes of a file, which follow."""
ANSWER = Struct("=BQ")
"""An `Outcome`, and bytes of what was converted, which follow; for each file, in their order."""

_START = """
import json, sys
setup = json.loads(sys.argv[1])
sys.path[:] = setup["path"]
from dpicl_rag.conversion.child import serve
serve(setup)
"""
_GRACE = 30.0  # seconds that the child has beyond a file's own limit
_PIECE = 2**20
_LOOK = 0.2  # seconds between two looks at whether to go on


class Outcome(IntEnum):
    """Exit statuses. Those of other programs end below, and mean damage."""

    CONVERTED = 0
    DAMAGED = 100
    PASSWORD = 101
    NO_TEXT = 102
    MEMORY = 103
    TIME = 104
    MUCH_TEXT = 105
    UNPACKS = 106
    BROKE_OFF = 107


REASONS: dict[Outcome, str] = {
    Outcome.DAMAGED: "damaged, or not the kind of file that its name says",
    Outcome.PASSWORD: "protected by a password; save it without one",
    Outcome.NO_TEXT: "no text in it: a scan, pictures or nothing; make a scan searchable (OCR)",
    Outcome.MEMORY: "takes too much memory to read",
    Outcome.TIME: "takes too long to read",
    Outcome.MUCH_TEXT: "holds too much text for one file; split it",
    Outcome.UNPACKS: "unpacks to more than 512 MiB",
    Outcome.BROKE_OFF: "the program that reads it broke off",
}


class NotConvertedError(Exception):
    """There is no text of a file. Its message is one of a few fixed phrases."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(REASONS[outcome])
        self.outcome = outcome


class _ChildEndedError(Exception):
    """The child has ended, or hangs, or could not be started."""


class Conversions:
    """Converts files, each as if it were alone.

    The child process has no environment, a temporary folder that is gone afterwards, and limits. It
    reads every batch of files in a process of that batch's own. A child that ends is started again.

    Args:
        limits: On each file.
        readers: The module whose ``READERS`` read the kinds.

    Attributes:
        while_waiting: Called now and then while the child works; what it raises ends the child.
    """

    def __init__(
        self, limits: ProcessLimits | None = None, readers: str = "dpicl_rag.conversion.readers"
    ) -> None:
        self._limits = limits or ProcessLimits()
        self._readers = readers
        self._child: subprocess.Popen[bytes] | None = None
        self._folder: str | None = None
        self.while_waiting: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def convert(self, kind: str, content: bytes) -> bytes:
        """The content of a file, converted: a function of its bytes and its kind alone.

        Args:
            kind: A name in ``READERS``.
            content: The bytes of the file.

        Returns:
            What the kind's reader makes of it. Private, and from a stranger.

        Raises:
            NotConvertedError: Nothing, or it takes too much.
        """
        (converted,) = self.convert_all(kind, [content])
        if isinstance(converted, Outcome):
            raise NotConvertedError(converted)
        return converted

    def convert_all(self, kind: str, contents: Sequence[bytes]) -> list[bytes | Outcome]:
        """`convert` of several files in one process, or why there is nothing of one.

        Args:
            kind: A name in ``READERS``.
            contents: The bytes of each file. All are held by the child until the last is read.
        """
        converted: list[bytes | Outcome] = []
        answered = False
        try:
            with suppress(_ChildEndedError):
                child = self._asked(kind, contents)
                for _ in contents:
                    converted.append(self._answer(child))  # noqa: PERF401 - those before it stay
                answered = True
        finally:
            if not answered:
                self.close()
        left = contents[len(converted) :]
        if len(contents) == 1 and left:
            return [Outcome.BROKE_OFF]
        # The child itself has ended: whose doing that was shows when each has one of its own.
        return converted + [one for content in left for one in self.convert_all(kind, [content])]

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.terminate()
            for pipe in (child.stdin, child.stdout):
                with suppress(OSError):
                    _there(pipe).close()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _asked(self, kind: str, contents: Sequence[bytes]) -> subprocess.Popen[bytes]:
        try:
            child = self._started()
            _ask(child, kind, contents)
        except OSError:
            raise _ChildEndedError from None
        return child

    def _answer(self, child: subprocess.Popen[bytes]) -> bytes | Outcome:
        outcome, size = ANSWER.unpack(self._read(child, ANSWER.size))
        converted = self._read(child, size)
        return converted if outcome == Outcome.CONVERTED else Outcome(outcome)

    def _read(self, child: subprocess.Popen[bytes], size: int) -> bytes:
        """So many bytes of what the child says. It has its own clock; this is for one that hangs.

        Raises:
            _ChildEndedError: It says no more.
        """
        pipe = _there(child.stdout).fileno()
        waiting = select.poll()  # select(2) takes no number from 1,024 on, as a server has
        waiting.register(pipe, select.POLLIN)
        pieces: list[bytes] = []
        deadline = time.monotonic() + self._limits.seconds + _GRACE
        while size:
            self.while_waiting()
            if waiting.poll(1_000 * _LOOK):
                piece = os.read(pipe, min(size, _PIECE))
                if not piece:
                    raise _ChildEndedError
                pieces.append(piece)
                size -= len(piece)
            elif time.monotonic() > deadline:
                raise _ChildEndedError
        return b"".join(pieces)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is not None:
            self.close()  # it ended while it had nothing to do
        if self._child is None:
            self._folder = tempfile.mkdtemp(prefix="dpicl-rag-")
            setup = {
                "path": [os.path.abspath(entry) for entry in sys.path],
                "readers": self._readers,
                "limits": asdict(self._limits),
                "folder": self._folder,
            }
            self._child = subprocess.Popen(  # noqa: S603 - this Python
                [sys.executable, "-s", "-P", "-B", "-c", _START, json.dumps(setup)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # what a reader says may quote the file
                # Sets come in the same order in each child.
                env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"},
                cwd=self._folder,
                start_new_session=True,  # an interrupt is this process's business
            )
        return self._child


def _ask(child: subprocess.Popen[bytes], kind: str, contents: Sequence[bytes]) -> None:
    questions = _there(child.stdin)
    name = kind.encode()
    questions.write(QUESTION.pack(len(name), len(contents)) + name)
    for content in contents:
        questions.write(SIZE.pack(len(content)))
        questions.write(content)
    questions.flush()


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise OSError
    return pipe


def is_installed(kind: str) -> bool:
    """Test for an installed reader of a kind."""
    if kind in PANDOC_KINDS:
        return pandoc() is not None
    return find_spec(_PACKAGES[kind]) is not None


def pandoc() -> str | None:
    """The pandoc that comes with ``pypandoc_binary``; None without it.

    No other is taken: what a file says must not depend on which one a machine happens to have.
    """
    spec = find_spec("pypandoc")
    if spec is None or spec.origin is None:
        return None
    name = "pandoc.exe" if os.name == "nt" else "pandoc"
    path = Path(spec.origin).parent / "files" / name
    return str(path) if path.is_file() else None


def row_in_words(cells: Sequence[str]) -> str:
    """A row of a spreadsheet as a line: its cells apart by bars, each in its column."""
    last = max((at for at, cell in enumerate(cells, 1) if cell), default=0)
    return " | ".join(cells[:last])
