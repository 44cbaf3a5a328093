"""Conversions of one load, by a child process that is started at the first of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from threading import Timer
from typing import IO, Self

from dpicl_rag.conversion.frames import ANSWER, QUESTION
from dpicl_rag.conversion.outcomes import NotConvertedError, Outcome
from dpicl_rag.conversion.process_limits import Limits

_START = """
import json, sys
given = json.loads(sys.argv[1])
sys.path[:] = given["path"]
from dpicl_rag.conversion.child import serve
serve(given)
"""
_GRACE = 30.0  # seconds that the child has beyond a file's own limit


class Conversions:
    """Converts files, each as if it were alone.

    The child process has no environment, a temporary folder that is gone afterwards, and limits. It
    reads every file in a process of that file's own. A child that ends is started again.

    Args:
        limits: On each file.
        readers: The module whose ``READERS`` read the kinds.
    """

    def __init__(
        self, limits: Limits | None = None, readers: str = "dpicl_rag.conversion.readers"
    ) -> None:
        self._limits = limits or Limits()
        self._readers = readers
        self._child: subprocess.Popen[bytes] | None = None
        self._folder: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def convert(self, kind: str, content: bytes) -> bytes:
        """What a file of a kind says: a function of both alone.

        Args:
            kind: A name in ``READERS``.
            content: The bytes of the file.

        Returns:
            What the kind's reader makes of it. Private, and from a stranger.

        Raises:
            NotConvertedError: Nothing, or it takes too much.
        """
        outcome, converted, answered = Outcome.BROKE_OFF, b"", False
        # The child has its own clock; this one is for a child that hangs itself.
        with suppress(OSError, EOFError):
            child = self._started()
            timer = Timer(self._limits.seconds + _GRACE, child.kill)
            timer.start()
            try:
                outcome, converted = _ask(child, kind, content)
                answered = True
            finally:
                timer.cancel()
                if not answered:
                    self.close()
        if outcome is not Outcome.CONVERTED:
            raise NotConvertedError(outcome)
        return converted

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

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._folder = tempfile.mkdtemp(prefix="dpicl-rag-")
            given = {
                "path": [os.path.abspath(entry) for entry in sys.path],
                "readers": self._readers,
                "limits": asdict(self._limits),
                "folder": self._folder,
            }
            self._child = subprocess.Popen(  # noqa: S603 - this Python
                [sys.executable, "-s", "-P", "-B", "-c", _START, json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # what a reader says may quote the file
                # Sets come in the same order in each child.
                env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"},
                cwd=self._folder,
                start_new_session=True,  # an interrupt is this process's business
            )
        return self._child


def _ask(child: subprocess.Popen[bytes], kind: str, content: bytes) -> tuple[Outcome, bytes]:
    questions, answers = _there(child.stdin), _there(child.stdout)
    name = kind.encode()
    questions.write(QUESTION.pack(len(name), len(content)) + name)
    questions.write(content)
    questions.flush()
    outcome, size = ANSWER.unpack(_read(answers, ANSWER.size))
    return Outcome(outcome), _read(answers, size)


def _read(pipe: IO[bytes], size: int) -> bytes:
    found = pipe.read(size)
    if len(found) < size:
        raise EOFError
    return found


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise EOFError
    return pipe
