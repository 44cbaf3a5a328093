"""Scopes of a memory's file: entries of a corpus, a caller, a key and a filter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Entries of one corpus, one caller, one key and one filter; None stands for all of a kind.

    Attributes:
        corpus: Name of the corpus.
        caller: Who asked; ``""`` is nobody.
        part: The filter on metadata that the answers were found under, see `part_of`.
        key: The key of a server that asked; ``""`` is none.
    """

    corpus: str | None = None
    caller: str | None = None
    part: str | None = None
    key: str | None = None

    def condition(self) -> tuple[str, list[str]]:
        """A condition of SQL with its parameters."""
        named = {"corpus": self.corpus, "caller": self.caller, "part": self.part, "key": self.key}
        given = {name: value for name, value in named.items() if value is not None}
        words = " AND ".join(f"{name} = ?" for name in given)  # four constants
        return words or "TRUE", list(given.values())


ALL = MemoryScope()


def part_of(where: Mapping[str, Any] | None) -> str:
    """A filter on metadata in one spelling; ``""`` for none."""
    return "" if not where else json.dumps(where, sort_keys=True, ensure_ascii=True, default=str)
