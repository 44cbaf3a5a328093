"""Items of rehearsals: public documents, what is asked of them, and what is right.

Those of answers were written for this, in five languages, and are about things that few questions
ask for. Others are asked for yes and no, and for labels.
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


def _items() -> Iterator[RehearsalItem]:
    for language, own in _whole("rehearsal").items():
        documents = {name: text.strip() for name, text in own["documents"].items()}
        for one in own["asked"]:
            for name, right in one["told"].items():
                yield RehearsalItem(language, documents[name], one["question"], right)
            for name in one["near"]:
                yield RehearsalItem(language, documents[name], one["question"], near=True)
            for name in one["far"]:
                yield RehearsalItem(language, documents[name], one["question"])


@dataclass(frozen=True, slots=True)
class YesOrNoQuestion:
    """A question, and the public documents that it is asked of."""

    text: str
    yes: tuple[str, ...]
    no: tuple[str, ...]


@cache
def yes_or_no_documents() -> dict[str, str]:
    """Public documents that say yes or no, by name."""
    return {one["id"]: one["text"] for one in _whole("yes_or_no")["document"]}


@cache
def yes_or_no_questions() -> tuple[YesOrNoQuestion, ...]:
    """All questions."""
    return tuple(
        YesOrNoQuestion(
            one["text"],
            tuple(one["yes"]),
            tuple(
                name
                for name in dict.fromkeys((*one["near"], *panel_names()))
                if name not in (*one["yes"], *one.get("skip", ()))
            ),
        )
        for one in _whole("yes_or_no")["question"]
    )


def panel_names() -> tuple[str, ...]:
    """Names of the documents that every question is asked of."""
    return tuple(_whole("yes_or_no")["panel"])


def panel() -> list[str]:
    """Documents that every question is asked of; most are about something else."""
    return [yes_or_no_documents()[name] for name in panel_names()]


@cache
def yes_or_no_items_version() -> str:
    """Hash of the public text."""
    return _hash(_bytes("yes_or_no"))


@dataclass(frozen=True, slots=True)
class LabelSet:
    """A question, its labels, and the public documents that it is asked of."""

    question: str
    fitting: dict[str, tuple[str, ...]]


@cache
def labelled_documents() -> dict[str, str]:
    """Public documents that are given labels, by name."""
    own = {one["id"]: one["text"] for one in _whole("labels")["document"]}
    return yes_or_no_documents() | own


@cache
def label_sets() -> tuple[LabelSet, ...]:
    """All sets; the last label of most is for what no other fits."""
    return tuple(
        LabelSet(one["question"], {label: tuple(names) for label, names in one["labels"].items()})
        for one in _whole("labels")["set"]
    )


@cache
def labelling_items_version() -> str:
    """Hash of the public text."""
    return _hash(yes_or_no_items_version().encode() + _bytes("labels"))


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


@cache
def _whole(name: str) -> dict[str, Any]:
    return tomllib.loads(_bytes(name).decode())


def _bytes(name: str) -> bytes:
    return files("dpicl_rag.rehearsal").joinpath(f"{name}.toml").read_bytes()
