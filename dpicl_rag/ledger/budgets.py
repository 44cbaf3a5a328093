"""Budgets as they are given: in rho or in epsilon, checked, in whole nano-rho."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger.fixed_point import allowance, exact, to_rho, whole_delta
from dpicl_rag.ledger.period import Period
from dpicl_rag.ledger.status import ScopeStatus


@dataclass(frozen=True, slots=True)
class Budgets:
    """All budgets of one scope, nano-rho.

    Attributes:
        budget: Of all answers of a period; None for no limit.
        unit_budget: The part of it that a unit may spend on individual answers; None for all.
        period: How often they renew.
        strict: Whether individual answers are refused at the public bound.
        thresholds: What thresholds of a period's answers may cost, in 10^-18.
    """

    budget: int | None
    unit_budget: int | None
    period: Period
    strict: bool
    thresholds: int


def budgets(
    *,
    rho: float | None = None,
    epsilon: float | None = None,
    unit_rho: float | None = None,
    unit_epsilon: float | None = None,
    delta: float,
    thresholds: float = SHARES.threshold_pool,
    period: Period | str,
    strict: bool,
) -> Budgets:
    """Budgets from the arguments of `Ledger.set_budget`.

    Raises:
        ConfigurationError: A parameter is outside its range.
    """
    if not 0 <= thresholds < 1:
        raise ConfigurationError("thresholds must be 0 or more and below 1: a part of delta")
    # Converted at the rest, so that both together keep the delta that was given.
    pool, delta = thresholds * delta, (1 - thresholds) * delta
    amount = _amount("rho", rho, "epsilon", epsilon, delta)
    if amount is None:
        raise ConfigurationError("give the budget as rho or as epsilon")
    unit_amount = _amount("unit_rho", unit_rho, "unit_epsilon", unit_epsilon, delta)
    budget = None if amount == math.inf else allowance(exact("rho", amount))
    unit_budget = None if unit_amount is None else allowance(exact("unit_rho", unit_amount))
    if unit_budget is not None and budget is not None and unit_budget > budget:
        raise ConfigurationError("a unit's budget must not be above that of its corpus")
    try:
        return Budgets(budget, unit_budget, Period(period), strict, whole_delta(pool))
    except ValueError:
        raise ConfigurationError("period must be lifetime, day, month or year") from None


def is_budget(status: ScopeStatus, given: Budgets) -> bool:
    """Whether a scope has these budgets; how much of delta its thresholds may take is left out."""
    rho = tuple(None if one is None else to_rho(one) for one in (given.budget, given.unit_budget))
    has = status.budget, status.unit_budget, status.period, status.strict
    return has == (*rho, given.period, given.strict)


def _amount(
    rho_name: str, rho: float | None, epsilon_name: str, epsilon: float | None, delta: float
) -> float | None:
    """ZCDP rho of a budget given in one of two ways; None where it is not given."""
    if epsilon is None:
        return rho
    if rho is not None:
        raise ConfigurationError(f"give {rho_name} or {epsilon_name}, not both")
    return epsilon_to_rho(epsilon, delta)
