"""The refusal of a budget that cannot pay, in rho and in epsilon."""

from __future__ import annotations

from datetime import date

from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.errors import BudgetExceededError
from dpicl_rag.ledger.fixed_point import to_rho

_DELTA = 1e-5


def refused(
    requested: int, remaining: int, scope: str, renews_on: date | None = None
) -> BudgetExceededError:
    """The error, to be raised.

    Args:
        requested: Nano-rho that the request would reserve.
        remaining: Nano-rho left in the scope.
        scope: What the budget belongs to, for example ``corpus 'mail'``.
        renews_on: When it does; None for a lifetime.
    """
    asked, left = to_rho(requested), to_rho(remaining)
    # As answers and budgets convert it, whose other part of delta is for thresholds.
    rest = SHARES.beside_pool(_DELTA)
    epsilons = rho_to_epsilon(asked, rest), rho_to_epsilon(left, rest)
    return BudgetExceededError(asked, left, scope, epsilons, renews_on)
