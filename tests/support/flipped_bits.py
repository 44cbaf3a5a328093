"""A small ledger in use, and what it says when a bit of its file has flipped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from dpicl_rag.errors import LedgerError
from dpicl_rag.ledger import Ledger

NOW = 1_773_576_000.0  # 2026-03-15 12:00 UTC
UNITS = [*"abcdefgh", "new"]


def good_files(folder: Path) -> dict[str, bytes]:
    """A ledger with every kind of row: the file, without a log, and its key."""
    path = folder / "good.sqlite"
    with Ledger(path, clock=lambda: NOW) as ledger:
        ledger.set_budget(corpus="mail", rho=3.0, unit_rho=2.0, period="month", thresholds=0.5)
        ledger.set_budget(corpus="notes", rho=math.inf)
        ledger.set_budget(caller="ann", rho=1.5)
        for corpus in ("mail", "notes", "letters"):
            with ledger.reserve(
                corpus=corpus, source="mail", caller="ann", rho=0.1, units=UNITS[:-1]
            ) as reservation:
                reservation.commit(0.1, [0.01 * number for number in range(8)])
        with ledger.reserve(corpus="mail", rho=0.1, delta=2e-6) as reservation:
            reservation.commit(0.1, delta=1e-6)
        ledger.merge_units("mail", {"b": "a", "c": "a"})
        ledger.forget_units("mail", ["d"])
        running = ledger.reserve(corpus="mail", rho=0.2, delta=1e-6, units=["a", "e"])
        running.commit(0.1, [0.05, 0.07], delta=5e-7)
        ledger._database.flush()
        ledger._database._disconnect()  # as a kill would leave it: an answer is in progress
        running._open = False
        content = path.read_bytes()
    path.write_bytes(content)
    return {path.name: content, f"{path.name}.key": Path(f"{path}.key").read_bytes()}


def flipped(content: bytes, bit: int) -> bytes:
    """The content with one bit the other way round."""
    spoilt = bytearray(content)
    spoilt[bit // 8] ^= 1 << bit % 8
    return bytes(spoilt)


def amounts(path: Path) -> Iterator[list[float]]:
    """What a ledger has left, for corpora, callers and units; all that counts."""
    with Ledger(path, clock=lambda: NOW, stale_after=1e9) as ledger:
        yield _left(ledger)
        for corpus in ("mail", "notes", "letters"):
            yield _limits(ledger, corpus)
        ledger.separate_units("mail", ["a", "b"])
        yield _limits(ledger, "mail")
        ledger.set_budget(corpus="mail", rho=9.0)
        yield _limits(ledger, "mail")
        yield _left(ledger)


def answers(files: dict[str, bytes], folder: Path) -> list[list[float]] | None:
    """What a ledger of these files has left; None where it is refused."""
    for beside in folder.glob("*.sqlite-*"):
        beside.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    try:
        return list(amounts(folder / "good.sqlite"))
    except LedgerError:
        return None


def leaves_more(found: list[list[float]], good: list[list[float]]) -> bool:
    """Whether any budget has more left than it had."""
    pairs = zip(found, good, strict=True)
    return any(
        len(one) != len(other) or any(a > b for a, b in zip(one, other, strict=True))
        for one, other in pairs
    )


def _limits(ledger: Ledger, corpus: str) -> list[float]:
    with ledger.reserve(corpus=corpus, rho=9.0, at_least=1e-9, units=UNITS) as held:
        assert held.limits is not None
        return held.limits


def _left(ledger: Ledger) -> list[float]:
    return [
        amount
        for status in ledger.status()
        for amount in (
            *(math.inf if left is None else left for left in (status.budget, status.remaining)),
            math.inf if status.unit_remaining is None else status.unit_remaining,
            -status.spent,
            -status.reserved,
        )
    ]
