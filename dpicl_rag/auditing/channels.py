"""Side channels: all output beside an answer, recorded and compared between neighbours."""

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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path

from dpicl_rag.auditing.neighbours import argmax
from dpicl_rag.auditing.subject import Subject, reporting
from dpicl_rag.corpora import Corpus
from dpicl_rag.documents import Document
from dpicl_rag.language_models.base import Progress
from dpicl_rag.ledger import Ledger
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.retrieval.embeddings import Embedder

_CLIENTS = "dpicl_rag.language_models.openai_compatible.http_client"
"""Closes clients in a thread of its own; where it was never loaded there are none."""

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
        if (clients := sys.modules.get(_CLIENTS)) is not None:
            clients.settle()
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


ODD_UNITS = {
    "an empty unit": "",
    "a unit of 20,000 letters": "x" * 20_000,
    "a unit of 4,000 words": "word " * 4_000,
    "a unit of line ends": "\n" * 4_000,
    "a unit of control characters": "\0\a\x1b[2J\u202e",
    "a unit with half a character": "\ud800",
    "a unit of control tokens": "<|im_end|><|im_start|>system</s><bos><think>[INST]",
}
"""Texts of odd units, by a name for the report: one document in a thousand is like them."""


@dataclass(frozen=True, slots=True, repr=False)
class ChannelAudit:
    """Channels that distinguish neighbouring corpora without the answer.

    Attributes:
        pairs: How many pairs of neighbours were compared.
        found: For each difference, what the neighbour has and the place where it showed. Public
            names only.
    """

    pairs: int
    found: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Verdict: no channel differed."""
        return not self.found

    def text(self) -> str:
        """The findings in words."""
        if self.holds:
            return f"Beside the answer, none of {self.pairs} neighbours could be told apart."
        return "\n".join(["Neighbours CAN BE TOLD APART without the answer:", *self.found])


def audit_channels(
    subject: Subject,
    documents: Sequence[Document],
    *,
    embedder: Embedder | None = None,
    tokens: int = 4,
    on_progress: Progress | None = None,
) -> ChannelAudit:
    """Answer from neighbouring corpora along one path, and compare the output beside the answer.

    Compared is all that an asker or a log of this process could see: logs of every level, warnings,
    what is printed, errors, progress, the numbers beside the answer, and files that others may see.
    Only time is left out. The corpora differ by one unit more, one longer, and one of odd content;
    each is stored in Chroma, searched, answered from under a ledger, and removed.

    Args:
        subject: The private path. A ``RememberingModel`` would hide the output of reading.
        documents: A sample of the corpus, one unit or more.
        embedder: Embeds what is stored; without one, documents are handed over as a list.
        tokens: Length of the answers.
        on_progress: Called with the part that is done.

    Raises:
        ConfigurationError: As the private path raises for the public question.
    """
    path = subject.observe([], argmax, tokens=tokens).tokens
    tell = partial(_told, subject, path, embedder)
    tell(documents)  # what a process puts out only once in its life comes now
    base = tell(documents)
    around = list(neighbours_by_channel(documents))
    found: list[str] = []
    for kind, neighbour in reporting(around, on_progress):
        found += [f"{kind}: {place}" for place in differences(base, tell(neighbour))]
    return ChannelAudit(len(around), tuple(found))


def neighbours_by_channel(documents: Sequence[Document]) -> Iterator[tuple[str, list[Document]]]:
    """Corpora with one unit more or one that is longer, and what sets them apart."""
    first, *others = documents
    yield "a unit more", [*documents, Document(first.text, "one more", first.metadata)]
    yield "a longer unit", [replace(first, text=f"{first.text} " * 40), *others]
    yield (
        "a unit in many pieces",
        [*documents, *(Document(f"Piece {n}.", "pieces") for n in range(9))],
    )
    for kind, text in ODD_UNITS.items():
        yield kind, [*documents, Document(text, "odd")]


def _told(
    subject: Subject, path: Sequence[int], embedder: Embedder | None, documents: Sequence[Document]
) -> Channels:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        channels = Channels(folder)
        ledger = stack.enter_context(Ledger(folder / "ledger.sqlite"))
        ledger.set_budget(corpus="audit", rho=1e5)
        pipeline = subject.pipeline
        if embedder is not None:
            stored = Corpus.create("audit", folder / "store", embedder=embedder)
            stack.callback(stored.close)
            stored.add(documents)
            pipeline = lambda _: ThresholdRetriever(stored, -1.0)  # noqa: E731
        observed = replace(
            subject,
            pipeline=pipeline,
            make=partial(subject.make, ledger=ledger, corpus="audit"),
            on_progress=lambda *at: channels.see("progress", at),
        )
        # The error is a finding, and what comes after it is not needed.
        with suppress(Exception), channels.listening():
            channels.see("answer", observed.follow(documents, path).result)
        channels.see("budget", ledger.status())
        return channels
