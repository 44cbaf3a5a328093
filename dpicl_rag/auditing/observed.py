"""The audit of channels: neighbouring corpora, one answer, and all output beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dpicl_rag.auditing.channels import Channels, differences
from dpicl_rag.auditing.neighbours import argmax
from dpicl_rag.auditing.subject import Subject
from dpicl_rag.corpora import Corpus
from dpicl_rag.documents import Document
from dpicl_rag.language_models.base import Progress
from dpicl_rag.ledger import Ledger
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.retrieval.embeddings import Embedder

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
        """Whether none differed."""
        return not self.found


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
    for done, (kind, neighbour) in enumerate(around):
        found += [f"{kind}: {place}" for place in differences(base, tell(neighbour))]
        if on_progress is not None:
            on_progress(done + 1, len(around))
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
