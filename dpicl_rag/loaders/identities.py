"""Names of records that are units by themselves: the same whenever and wherever they are read."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from dpicl_rag.loaders.named_values import name_in
from dpicl_rag.loaders.records import Record


class Identities:
    """The names of the records of one load.

    A message has its id, a row that has a key that key. A row without one is known by its content
    and by how many equal rows came before it, as in ``as_documents``: its place in the file would
    be another's after a row came or went above it, whereas of equal rows it does not matter which
    is which. A row with a key has that name as well, for it may have been read before anyone said
    which column is the key.

    A text file is known by where it lies, packed or not, so that it may be edited, and by its
    content, so that it may be moved. Of equal files in one load each has its own place and so is a
    unit of its own; by content they are numbered like rows. One more changes the unit of none. In a
    corpus, equal files that come in several loads may become one unit, but no others with them.
    """

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._numbers: dict[tuple[str, str], int] = {}

    def names(self, record: Record) -> list[str]:
        """The names of a record, the first of which is its unit's."""
        if record.identity:
            return [_digest(record.identity)]
        if record.content:
            content = _digest(f"text {record.content}")
            place = (content, record.file)
            if place not in self._numbers:
                self._numbers[place] = self._next(content)
            return [_digest(f"file {record.file}"), f"{content}-{self._numbers[place]}"]
        exact = [dict(record.exact)] if record.exact else []
        content = _digest(json.dumps([record.text, dict(record.metadata), *exact], sort_keys=True))
        by_content = f"{content}-{self._next(content)}"
        if not record.key:
            return [by_content]
        return [_digest(f"row {record.key.lower()} {name_in(record, record.key)}"), by_content]

    def record_name(self, record: Record, unit: str) -> str:
        """A name for what takes the place of what was read before; empty where nothing does.

        That is a text file, or a row with a key, of the very same file and the same unit: two
        tables may use the same keys for different things, and nobody's row takes the place of
        another's. Messages do not change.
        """
        if record.content:
            named = [record.file, unit]
        elif record.key:
            named = [record.file, unit, record.key.lower(), name_in(record, record.key)]
        else:
            return ""
        name = _digest(json.dumps(named))
        return f"{name}-{self._next(name)}"

    def _next(self, name: str) -> int:
        self._seen[name] += 1
        return self._seen[name]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
