"""Joins: known units that became, or would become, part of another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dpicl_rag.corpora.contents import Contents


@dataclass(frozen=True, slots=True, repr=False)
class Join:
    """Units that are one, or would be by what was withheld. For the owner: private.

    Attributes:
        unit: The one that stays.
        parts: Those that are part of it now.
        documents: What came when it was found, by the name under which `Corpus.forget_message`
            takes it: the metadata of each, as far as its text is there. What ties the most units
            comes first.
        on: The day, as ``2026-11-23``; empty where it is not known.
    """

    unit: str
    parts: tuple[str, ...]
    documents: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    on: str = ""

    def __repr__(self) -> str:
        return "Join(<private>)"


def described(joins: Iterable[Join], contents: Contents) -> list[Join]:
    """Joins with the metadata of their documents, as far as passages of them are stored."""
    joins = list(joins)
    wanted = list(dict.fromkeys(digest for join in joins for digest in join.documents))
    fields = {one.tie: json.loads(one.fields) for one in contents.documents("tie", wanted)}
    return [
        replace(join, documents={digest: fields.get(digest, {}) for digest in join.documents})
        for join in joins
    ]
