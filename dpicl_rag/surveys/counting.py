"""What a count by stored vectors needs beside documents: settings, budget, coins and memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.ledger.account import Account
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.surveys.remembered_counts import Remembered


class OpenSharedAccount(Protocol):
    """Opens an account that all units pay alike, see `dpicl_rag.ledger.open_account`."""

    def __call__(self, *, rho: float) -> Account:
        """Open it for a price."""
        ...


@dataclass(frozen=True, slots=True)
class Counting:
    """See the module.

    Attributes:
        config: Public settings.
        open_account: Holds the budget.
        randomness: Where the noise comes from.
        remembered: What was counted before.
    """

    config: PrivacyConfig
    open_account: OpenSharedAccount
    randomness: Randomness
    remembered: Remembered = field(default_factory=Remembered)
