"""Items for labels: public documents, and sets of labels of which one fits each of them."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dpicl_rag.rehearsal import yes_or_no_items


@dataclass(frozen=True, slots=True)
class LabelSet:
    """A question, its labels, and the public documents that it is asked of.

    Attributes:
        question: What is asked.
        fitting: Of each label, names of the documents that it fits.
    """

    question: str
    fitting: dict[str, tuple[str, ...]]


@cache
def documents() -> dict[str, str]:
    """All public documents, by name."""
    return yes_or_no_items.documents() | {one["id"]: one["text"] for one in _whole()["document"]}


@cache
def label_sets() -> tuple[LabelSet, ...]:
    """All sets; the last label of most is for what no other fits."""
    return tuple(
        LabelSet(one["question"], {label: tuple(names) for label, names in one["labels"].items()})
        for one in _whole()["set"]
    )


@cache
def version() -> str:
    """Hash of the public text."""
    return hashlib.sha256(yes_or_no_items.version().encode() + _read()).hexdigest()


@cache
def _whole() -> dict[str, Any]:
    return tomllib.loads(_read().decode())


def _read() -> bytes:
    return files("dpicl_rag.rehearsal").joinpath("labels.toml").read_bytes()
