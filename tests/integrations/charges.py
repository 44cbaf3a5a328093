"""Prices of tokens, and what a ledger was charged, for tests of charges."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dpicl_rag import Ledger
from dpicl_rag.mechanisms.randomness import Randomness
from tests.integrations.langchain.support import spent

# One token costs (strength * clip * factor)^2 / 8 of rho, 1/128 where a unit adds an expert, and
# nothing is paid beside tokens.
FIXED: dict[str, Any] = {
    "accounting": "fixed",
    "utility": "log_prob",
    "clip": 4.0,
    "strength": 1 / 16,
    "unsupported": "ignore",
}
TOKEN = 1 / 128


class Drawn:
    """Counts the tokens drawn, at the one place where they are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        draw = Randomness.draw

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return draw(*args, **kwargs)

        monkeypatch.setattr(Randomness, "draw", counted)


async def ended(ledger: Ledger) -> None:
    """Wait for answers that LangChain's bindings leave to the event loop to end."""
    for _ in range(500):
        if not reserved(ledger):
            return
        await asyncio.sleep(0.01)


def check_settled(ledger: Ledger, drawn: int) -> None:
    """What was spent is the price of what was drawn, and nothing is held."""
    assert spent(ledger) == pytest.approx(drawn * TOKEN)
    assert not reserved(ledger)


def reserved(ledger: Ledger) -> float:
    """What answers under way hold."""
    return sum(status.reserved for status in ledger.status())
