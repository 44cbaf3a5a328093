"""Items of the rehearsal: public documents, what is asked of them, and what is right.

All of it was written for this, in five languages, and is about things that few questions ask for.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class RehearsalItem:
    """A document and a question to it.

    Attributes:
        language: Its code, as `languages.Language` has it.
        document: A mail, a note, a ticket or rows of a table.
        question: What is asked.
        right: Regular expression that a right answer has; None where the document does not tell.
        near: Whether a document that does not tell is about the same thing: most have a wrong
            answer of the right kind.
    """

    language: str
    document: str
    question: str
    right: str | None = None
    near: bool = False

    def is_right(self, answer: str) -> bool:
        """Test for an answer that says what the document tells."""
        return self.right is not None and re.search(self.right, answer, re.IGNORECASE) is not None


@cache
def rehearsal_items() -> tuple[RehearsalItem, ...]:
    """Items that a document tells, and that it does not; those of one question stand together."""
    return tuple(_items())


@cache
def items_version() -> str:
    """Hash of all public text that a rehearsal depends on."""
    parts = (_read("dpicl_rag.rehearsal", "rehearsal.toml"), *_worked_examples())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _items() -> Iterator[RehearsalItem]:
    for language, documents, own in _languages():
        for one in own["asked"]:
            for name, right in one["told"].items():
                yield RehearsalItem(language, documents[name], one["question"], right)
            for name in one["near"]:
                yield RehearsalItem(language, documents[name], one["question"], near=True)
            for name in one["far"]:
                yield RehearsalItem(language, documents[name], one["question"])


def _languages() -> Iterator[tuple[str, dict[str, str], dict[str, Any]]]:
    whole = tomllib.loads(_read("dpicl_rag.rehearsal", "rehearsal.toml").decode())
    for language, own in whole.items():
        yield language, {name: text.strip() for name, text in own["documents"].items()}, own


def _worked_examples() -> Iterator[bytes]:
    yield _read("dpicl_rag.languages", "worked_examples.toml")


def _read(package: str, name: str) -> bytes:
    return files(package).joinpath(name).read_bytes()
