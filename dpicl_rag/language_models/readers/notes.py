"""Notes: what a reader says that one unit says to a question, in one line.

A note is a function of its own unit, of public text and of the coins of its own call. So it takes
the unit's place in all that follows, and is bounded and charged as the unit would be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from dpicl_rag.errors import DPICLError, EngineUnavailableError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.concurrent_reader import ConcurrentReader
from dpicl_rag.languages.languages import SILENT

Passages = tuple[str, ...]


class UnitReading(Protocol):
    """Reads the passages of each unit by itself."""

    def __call__(
        self,
        units: Sequence[Passages],
        on_progress: Progress | None = None,
        names: Sequence[str] | None = None,
    ) -> list[Passages]:
        """Readings of each unit; ``()`` where that is nothing.

        Args:
            units: The passages of each. Private.
            on_progress: Called with the part of the units that is read.
            names: Of the units, by which replies that are kept can be forgotten. Private.
        """
        ...


NOTE = (
    "Answer the question from the document alone, in one short sentence, in the document's own "
    f"words. If the document does not say, reply with the word {SILENT}.\n\n"
    "Document:\n{document}\n\nQuestion: {question}"
)
"""The prompt of a reader for a note of one unit."""

_LABEL = (
    "Read the document and answer the question with one of these labels, and nothing else: "
    "{labels}. If none fits, reply with the word "
    f"{SILENT}.\n\n"
    "Document:\n{document}\n\nQuestion: {question}"
)
_PHRASES = (
    "Say what the document says to the question, in at most {most} short phrases of one to three "
    "words each, with commas between them. If the document does not say, reply with the word "
    f"{SILENT}.\n\n"
    "Document:\n{document}\n\nQuestion: {question}"
)
_POLISH = (
    "Write the answer to the question as one fluent sentence. Say what the answer says, in its own "
    "words where you can, and add nothing.\n\nQuestion: {question}\n\nAnswer: {answer}"
)
_CHARACTERS = 16_000  # of a unit that are read at most
_WORDS = 64  # of a note that are kept


def notes(reader: Reader, question: str, prompt: str = NOTE) -> UnitReading:
    """A reading of one note of each unit.

    Args:
        reader: Reads one unit at a time.
        question: Public text.
        prompt: What it is asked; holds ``{document}`` once and ``{question}``.
    """
    return partial(_read, reader, partial(_filled, prompt, question=question), _line)


def choices(reader: Reader, question: str, labels: Sequence[str], most: int = 1) -> UnitReading:
    """A reading of the labels that each unit says.

    Args:
        reader: Reads one unit at a time.
        question: Public text.
        labels: Public.
        most: Labels that one unit says; the first of those that stand in the reply.
    """
    given = partial(_filled, _LABEL, question=question, labels=", ".join(labels))
    return partial(_read, reader, given, partial(_said, labels=labels, most=most))


def phrases(reader: Reader, question: str, most: int) -> UnitReading:
    """A reading of a few phrases of each unit.

    Args:
        reader: Reads one unit at a time.
        question: Public text.
        most: Phrases of one unit.
    """
    given = partial(_filled, _PHRASES, question=question, most=str(most))
    return partial(_read, reader, given, partial(_phrases, most=most))


def _read(
    reader: Reader,
    prompt: Callable[..., str],
    taken: Callable[[str], Passages],
    units: Sequence[Passages],
    on_progress: Progress | None = None,
    names: Sequence[str] | None = None,
) -> list[Passages]:
    prompts = [prompt(document="\n\n".join(own)[:_CHARACTERS]) for own in units]
    try:
        # Also of no units: a provider that is down is told in any case.
        if isinstance(reader, ConcurrentReader):
            replies = reader.replies(prompts, on_progress, names)
        else:
            replies = list(reader.replies(prompts, on_progress))
    except DPICLError:
        raise
    except Exception:  # of somebody's own reader: it may quote what it was given
        replies = []
    if len(replies) != len(prompts):
        raise EngineUnavailableError
    return [taken(reply) if isinstance(reply, str) else () for reply in replies]


def _filled(template: str, *, document: str, **public: str) -> str:
    """The template with public text first, so that a document can spell no field of it."""
    before, after = template.split("{document}")
    return f"{_public(before, public)}{document}{_public(after, public)}"


def _public(text: str, given: dict[str, str]) -> str:
    for name, value in given.items():
        text = text.replace("{" + name + "}", value)
    return text


def first_line(reply: str) -> str:
    """The first line of a reply that has words, and so many of them; empty if it says nothing."""
    words = next((line for line in reply.splitlines() if line.strip()), "").split()[:_WORDS]
    if not words or words[0].strip(".,:;!\"'*").upper() == SILENT:
        return ""
    return " ".join(words)


def _line(reply: str) -> Passages:
    line = first_line(reply)
    return (line,) if line else ()


def _phrases(reply: str, *, most: int) -> Passages:
    """The first phrases of a reply, each once."""
    parts = (part.strip(" .") for part in re.split("[,;]", first_line(reply)))
    return tuple(dict.fromkeys(part for part in parts if part))[:most]


def _said(reply: str, *, labels: Sequence[str], most: int) -> Passages:
    """The labels that stand in a reply, the earliest first; of equal places the longest."""
    text = f" {_plain(reply)} "
    found = [(at, -len(one), one) for one in labels if (at := text.find(f" {_plain(one)} ")) >= 0]
    kept: list[str] = []
    taken: set[int] = set()
    for at, _, one in sorted(found):
        if at not in taken:
            kept.append(one)
            taken.add(at)
    return tuple(kept[:most])


def _plain(text: str) -> str:
    """Words in small letters, one space between them."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def polished(reader: Reader, question: str, released: str) -> str:
    """The released text in other words, or as it is where the reader gives none.

    Post-processing of what was released, so it costs no budget.

    Args:
        reader: Asked once.
        question: Public text.
        released: Public too, by now.
    """
    asked, answered = _POLISH.split("{answer}")
    prompt = partial(str.replace, asked, "{question}")
    try:
        (reply,) = reader.replies([prompt(question) + released + answered])
    except DPICLError:
        return released
    return first_line(reply) or released
