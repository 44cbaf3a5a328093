"""The ledger: spent budgets, kept in a file that survives kills and many processes."""

from dpicl_rag.ledger.account import Account, open_account
from dpicl_rag.ledger.budgets import NoBudgetWarning, Period, ScopeStatus
from dpicl_rag.ledger.ledger import Ledger
from dpicl_rag.ledger.reservation import Reservation

__all__ = [
    "Account",
    "Ledger",
    "NoBudgetWarning",
    "Period",
    "Reservation",
    "ScopeStatus",
    "open_account",
]
