"""Joins: known units that became, or would become, part of another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dpicl_rag.corpora.contents import Contents
from dpicl_rag.errors import CorpusError

MOST_UNITS = 3
"""How many units may become one before the owner is asked. Public.

A message ties two units where it comes after what it answers and after what answers it, and a third
where it was forwarded meanwhile. One who ties conversations of others, by ids that he collected,
needs many to do harm. What a unit took in before counts, so that he does not get there in small
steps.
"""

Joins = Literal["ask", "allow"]


@dataclass(frozen=True, slots=True, repr=False)
class Join:
    """Units that are one. For the owner of the documents: private.

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


class JoinError(CorpusError):
    """Documents would make many units of a corpus one; nothing was written.

    Args:
        most: How many may become one without a word of the owner. Public.
        joins: The joins. Private: for the owner alone.
    """

    def __init__(self, most: int, joins: Sequence[Join]) -> None:
        super().__init__(
            f"these documents would make more than {most} units that are there one, as somebody "
            "does who answers in conversations of others; nothing was stored. `dpicl-rag ingest` "
            "shows them and asks; --yes, or joins='allow', accepts them"
        )
        self.joins = tuple(joins)


def require_allowed(
    joins: Sequence[Join], former: Mapping[str, Sequence[str]], allowed: Joins
) -> None:
    """Refuse what would make more units one than the owner need not be asked about.

    Args:
        joins: What documents would join.
        former: By unit, the units that became part of it before.
        allowed: ``"allow"`` refuses nothing.

    Raises:
        JoinError: They would.
    """
    many = tuple(
        join
        for join in joins
        if sum(1 + len(former.get(unit, ())) for unit in (join.unit, *join.parts)) > MOST_UNITS
    )
    if many and allowed != "allow":
        raise JoinError(MOST_UNITS, many)


def described(joins: Iterable[Join], contents: Contents) -> list[Join]:
    """Joins with the metadata of their documents, as far as passages of them are stored."""
    joins = list(joins)
    wanted = list(dict.fromkeys(digest for join in joins for digest in join.documents))
    fields = {one.tie: json.loads(one.fields) for one in contents.documents("tie", wanted)}
    return [
        replace(join, documents={digest: fields.get(digest, {}) for digest in join.documents})
        for join in joins
    ]
