"""What units of the made-up mailbox pay. Of a real one nobody may print it."""

from __future__ import annotations

from collections.abc import Iterable

from dpicl_rag import Ledger
from dpicl_rag.ledger import open_account


class Spending:
    """Watches a ledger from the outside: what units have left of a budget that is far too large.

    Args:
        ledger: Where answers are booked.
        corpus: Name of the corpus.
        units: All of its units.
    """

    def __init__(self, ledger: Ledger, corpus: str, units: Iterable[str]) -> None:
        self._ledger = ledger
        self._corpus = corpus
        self._units = sorted(units)
        self._left = self._limits()

    def since_last(self) -> float:
        """Mean rho that the units that were read have paid since the last call."""
        left = self._limits()
        paid = [before - now for before, now in zip(self._left, left, strict=True) if now < before]
        self._left = left
        return sum(paid) / len(paid) if paid else 0.0

    def _limits(self) -> list[float]:
        (status,) = (s for s in self._ledger.status() if s.name == self._corpus)
        assert status.remaining is not None
        rho, places = status.remaining, range(len(self._units))
        with open_account(self._ledger, corpus=self._corpus, rho=rho, units=self._units) as account:
            return account.left(places, rho)
