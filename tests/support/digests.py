"""Digests of all that cases give, kept in a JSON file: what is moved about changes none of them."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dpicl_rag import BudgetExceededError, Ledger

_GOLDEN = (5**0.5 - 1) / 2


def digest(given: object) -> str:
    """Of the words that were given, and a sum of the numbers."""
    words, numbers = [], []
    for value in leaves(given):
        (numbers if isinstance(value, float) else words).append(value)
    # Weights that are no small whole numbers: no two changes cancel.
    weights = (1 + at * _GOLDEN % 1 for at in itertools.count(1))
    total = sum(weight * number for weight, number in zip(weights, numbers, strict=False))
    return f"{zlib.crc32(repr(words).encode()):08x} {total:.9g}"


def leaves(value: object) -> Iterator[object]:
    """All words and numbers, in order, with the names of fields."""
    if isinstance(value, dict):
        for name in sorted(value, key=str):
            yield str(name)
            yield from leaves(value[name])
    elif isinstance(value, list | tuple):
        yield len(value)
        for item in value:
            yield from leaves(item)
    else:
        yield value


def is_as_recorded(found: str, recorded: str) -> bool:
    """Whether two digests say the same words, and numbers but for rounding."""
    (words, number), (said, told) = recorded.split(), found.split()
    return said == words and float(told) == pytest.approx(float(number), rel=1e-5, abs=1e-9)


def recorded(path: Path) -> dict[str, str]:
    """Digests by the name of their case."""
    groups = json.loads(path.read_text(encoding="utf-8"))
    return {f"{group} {name}": digest for group in groups for name, digest in groups[group].items()}


def record(path: Path, found: Mapping[str, str]) -> None:
    """Write digests, a line for each group: names that are alike but for the last word."""
    groups: dict[str, dict[str, str]] = {}
    for case, one in found.items():
        group, _, name = case.rpartition(" ")
        groups.setdefault(group, {})[name] = one
    lines = ",\n".join(
        f"{json.dumps(group)}:{json.dumps(digests, separators=(',', ':'))}"
        for group, digests in groups.items()
    )
    path.write_text(f"{{{lines}}}\n", encoding="utf-8")


def booked(ledger: Ledger, corpus: str, units: list[str]) -> dict[str, object]:
    """What a ledger holds: what each scope has spent, and what each unit has left of a corpus."""
    every = ledger.status()
    spent = [[s.kind, s.name, s.spent, s.remaining, s.delta_spent, s.questions] for s in every]
    [room] = [s.room for s in every if (s.kind, s.name) == ("corpus", corpus)]
    try:
        with ledger.reserve(corpus=corpus, rho=room, units=units) as reservation:
            return {"scopes": spent, "left": reservation.limits}
    except BudgetExceededError as error:
        return {"scopes": spent, "left": str(error)}
