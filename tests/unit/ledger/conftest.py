from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl_rag.ledger import Ledger


class Clock:
    """A clock that stands still until it is set; starts on 2026-03-15 12:00 UTC."""

    def __init__(self) -> None:
        self.now = 1_773_576_000.0

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * 86_400


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.sqlite"


@pytest.fixture
def ledger(path: Path, clock: Clock) -> Iterator[Ledger]:
    with Ledger(path, clock=clock) as opened:
        yield opened
