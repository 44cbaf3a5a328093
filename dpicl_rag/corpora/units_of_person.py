"""Units that a person is in, by the fields of their records. For the owner; private."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from email.utils import getaddresses
from typing import Any

from dpicl_rag.normal_forms import normal_form
from dpicl_rag.retrieval.stored_record import StoredRecord

_ADDRESS = re.compile(r"[^\s<>()\[\],;:\"]+@[^\s<>()\[\],;:\"]+")


def units_of_person(records: Iterable[StoredRecord], person: str) -> Counter[str]:
    """How many records of each unit have a person in a field: as sender, recipient, owner.

    Words of a text are not looked at: a name there may be another's.

    Args:
        records: All of a corpus.
        person: An address or a name, in letters of any size. A part of one is none.
    """
    wanted = _alike(person)
    found: Counter[str] = Counter()
    for record in records:
        if wanted and (wanted == _alike(record.unit) or wanted in _persons(record.metadata)):
            found[record.unit] += 1
    return found


def _persons(fields: Mapping[str, Any]) -> Iterator[str]:
    """What fields say, whole, and each address and name of a list of them."""
    for value in fields.values():
        if isinstance(value, str):
            yield _alike(value)
            # Newer Pythons read none of a list that is not written by the rules.
            yield from map(_alike, _ADDRESS.findall(value))
            for name, address in getaddresses([value]):
                yield from filter(None, (_alike(name), _alike(address)))


def _alike(text: str) -> str:
    return " ".join(normal_form("NFKC", text).split()).casefold()
