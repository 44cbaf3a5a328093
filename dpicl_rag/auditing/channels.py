"""Side channels of a program: its output beside an answer, recorded so that two runs compare."""

from __future__ import annotations

import gc
import logging
import os
import re
import stat
import sys
import tempfile
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

_CHANCE = re.compile(
    r"0x[0-9a-fA-F]+|\b\d{14,15}\b"  # addresses, of the heap too
    "|[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}"  # UUIDs
    r"|\d{4}-?\d\d-?\d\d[T ]\d\d:?\d\d:?[\d.,]+(?:Z|[+-]\d\d:?\d\d)?"  # moments
    r"|datetime\.datetime\([^)]*\)"
    r"|\b[\d.]+m?s\b"  # durations
)
"""Text that differs from run to run by chance or by the clock."""


class Channels:
    """Records logs, warnings, prints, errors, and whatever else it is shown.

    Args:
        folder: Files in it that other users of the machine can see are recorded too, by name and
            size.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.told: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._folder = folder
        self._lock = threading.Lock()  # frameworks tell from several threads at once

    def __repr__(self) -> str:
        return "Channels(<private>)"

    def see(self, place: str, value: object) -> None:
        """Record the output of one place; addresses, UUIDs and moments are left out."""
        text = _CHANCE.sub("*", value if isinstance(value, str) else repr(value))
        if self._folder is not None:
            text = text.replace(str(self._folder), "*")
        with self._lock:
            self.told[place][text] += 1

    def see_error(self, place: str, error: BaseException) -> None:
        """Record an error and those that led to it."""
        for one in chain_of(error):
            self.see(place, f"{type(one).__name__}: {one}")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record the output of this process; errors are recorded and pass.

        Meanwhile every logger, of any level, reports here and nowhere else, and nothing is printed.
        """
        gc.collect()  # what is left of earlier work tells its end now
        with (
            self._printed("stdout", 1),
            self._printed("stderr", 2),
            warnings.catch_warnings(record=True) as caught,
            self._logged(),
        ):
            warnings.simplefilter("always")
            try:
                yield
            except BaseException as error:
                self.see_error("error", error)
                raise
            finally:
                for warning in caught:
                    self.see("warning", f"{warning.category.__name__}: {warning.message}")
                if self._folder is not None:
                    for file in _visible(self._folder):
                        self.see("file", f"{file} {file.lstat().st_size}")

    @contextmanager
    def _logged(self) -> Iterator[None]:
        root = logging.getLogger()
        known = [one for one in root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
        disabled = root.manager.disable
        before = [(one, one.level, one.handlers, one.propagate, one.disabled) for one in known]
        root_before = (root.level, root.handlers)
        try:
            logging.disable(logging.NOTSET)
            for logger in known:
                # Some libraries keep their records to themselves, transformers among them.
                logger.handlers, logger.propagate, logger.disabled = [], True, False
                logger.level = 1  # setLevel asks every logger to forget; root's is enough
            root.handlers = [_LogHandler(self)]
            root.setLevel(1)
            yield
        finally:
            for logger, level, handlers, propagate, off in before:
                logger.handlers, logger.propagate, logger.disabled = handlers, propagate, off
                logger.level = level
            root.handlers = root_before[1]
            root.setLevel(root_before[0])
            logging.disable(disabled)

    @contextmanager
    def _printed(self, place: str, descriptor: int) -> Iterator[None]:
        """Prints of Python, and those of libraries in other languages."""
        redirect = redirect_stdout if descriptor == 1 else redirect_stderr
        printed = StringIO()
        with tempfile.TemporaryFile() as file, ExitStack() as after:
            getattr(sys, place).flush()
            kept = os.dup(descriptor)
            after.callback(os.close, kept)
            os.dup2(file.fileno(), descriptor)
            after.callback(os.dup2, kept, descriptor)
            try:
                with redirect(printed):
                    yield
            finally:
                file.seek(0)
                text = printed.getvalue() + file.read().decode("utf-8", "replace")
                for line in text.splitlines():
                    self.see(place, line)


def chain_of(error: BaseException) -> list[BaseException]:
    """An error and all that led to it, each once."""
    waiting: list[BaseException | None] = [error]
    found: list[BaseException] = []
    while waiting:
        one = waiting.pop()
        if one is None or any(one is other for other in found):
            continue
        found.append(one)
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return found


def differences(one: Channels, other: Channels) -> list[str]:
    """Places in which the output of two runs differs, sorted."""
    places = sorted(one.told.keys() | other.told.keys())
    return [place for place in places if one.told[place] != other.told[place]]


# How often a lock was tried follows from time, which is not compared.
_WAITING = ("Attempting to acquire lock", "not acquired on")


class _LogHandler(logging.Handler):
    def __init__(self, channels: Channels) -> None:
        super().__init__(1)
        self._channels = channels

    def emit(self, record: logging.LogRecord) -> None:
        place, message = f"log {record.name}", record.getMessage()
        if record.name == "filelock" and any(words in message for words in _WAITING):
            return
        self._channels.see(place, f"{record.levelname} {message}")
        if record.exc_info and record.exc_info[1] is not None:
            self._channels.see_error(place, record.exc_info[1])


def _visible(folder: Path) -> Iterator[Path]:
    """Files that somebody other than their owner can see."""
    for path in sorted(folder.iterdir()):
        mode = path.lstat().st_mode
        if not mode & (stat.S_IRGRP | stat.S_IROTH):
            continue
        yield path
        if stat.S_ISDIR(mode) and mode & (stat.S_IXGRP | stat.S_IXOTH):
            yield from _visible(path)
