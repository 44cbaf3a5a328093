"""Items for yes and no: public documents, and questions that each of them answers."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class YesOrNoQuestion:
    """A question, and the public documents that it is asked of.

    Attributes:
        text: The question.
        yes: Names of the documents that say yes.
        no: Of those that say no.
    """

    text: str
    yes: tuple[str, ...]
    no: tuple[str, ...]


@cache
def documents() -> dict[str, str]:
    """All public documents, by name."""
    return {one["id"]: one["text"] for one in _whole()["document"]}


@cache
def questions() -> tuple[YesOrNoQuestion, ...]:
    """All questions."""
    return tuple(
        YesOrNoQuestion(
            one["text"],
            tuple(one["yes"]),
            tuple(
                name
                for name in dict.fromkeys((*one["near"], *_whole()["panel"]))
                if name not in (*one["yes"], *one.get("skip", ()))
            ),
        )
        for one in _whole()["question"]
    )


def panel_names() -> tuple[str, ...]:
    """Names of the documents that every question is asked of."""
    return tuple(_whole()["panel"])


def panel() -> list[str]:
    """Documents that every question is asked of; most are about something else."""
    return [documents()[name] for name in panel_names()]


@cache
def version() -> str:
    """Hash of the public text."""
    return hashlib.sha256(_read()).hexdigest()


@cache
def _whole() -> dict[str, Any]:
    return tomllib.loads(_read().decode())


def _read() -> bytes:
    return files("dpicl_rag.rehearsal").joinpath("yes_or_no.toml").read_bytes()
