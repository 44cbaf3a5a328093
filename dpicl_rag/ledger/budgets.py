"""Budgets of a corpus or a caller: given, renewed, promised, and their state in numbers and words.

All amounts in the code are nano-rho, and all of them are public. A corpus takes two kinds of
answers. A *fixed* answer costs every unit the same rho. An *individual* answer with cap c costs
unit i some r_i <= c that is private, and a filter keeps the sum of a unit's r_i within its budget
(Feldman and Zrnic 2021; Renyi/zCDP filter). Write

- B for the budget of the corpus and U <= B for the budget of a unit (U = B where none is given),
- F for the sum of fixed answers, C for the sum of the caps of individual answers,
- S_i for what individual answers have cost unit i.

The promise is F + S_i <= B for every unit i. S_i is private, so decisions about it use the bound
S_i <= min(C, U, B - F) =: I, which is public:

- a fixed answer of rho is allowed while F + rho <= B - min(C, U);
- an individual answer holds at most min(U, B - F) - S_i for unit i. It never asks the others.

All of it holds for both ways in which rho adds up: as zCDP, and where all of it is of Gaussian
noise, as mu^2 / 2 (docs/privacy.md, "Budgets for Gaussian noise"). Only what epsilon a rho has
differs.

So individual answers go on after their caps have filled the budget: from then on units fall silent
one by one, and the corpus has nothing left to promise to fixed answers. What is reported as spent
is F + I.

``floor`` keeps the bound true when a budget is lowered: what was possible before stays counted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Literal

from dpicl_rag import _validate
from dpicl_rag.accounting import DELTA, epsilon_to_rho, rho_to_epsilon
from dpicl_rag.accounting.budget import SHARES, Booking
from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger.fixed_point import affordable, allowance, exact, to_rho, whole_delta

_EPOCH = date(1970, 1, 1)
_DAY_SECONDS = 86_400


class Period(StrEnum):
    """The period after which a budget renews, in UTC.

    A renewing budget protects *per period*: a unit that stays in the corpus for n periods can lose
    n times the budget. Only ``LIFETIME`` bounds what is ever learned about it.
    """

    LIFETIME = "lifetime"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"

    def start(self, day: int) -> int:
        """First day of the period that holds ``day``, both as days since 1970-01-01 UTC.

        A lifetime starts on day 0.
        """
        if self is Period.LIFETIME:
            return 0
        if self is Period.DAY:
            return day
        here = _EPOCH + timedelta(days=day)
        first = here.replace(day=1) if self is Period.MONTH else date(here.year, 1, 1)
        return (first - _EPOCH).days

    def renewal(self, day: int) -> date | None:
        """First day of the next period, or None for a lifetime."""
        if self is Period.LIFETIME:
            return None
        here = _EPOCH + timedelta(days=day)
        if self is Period.DAY:
            return here + timedelta(days=1)
        if self is Period.MONTH and here.month < 12:
            return date(here.year, here.month + 1, 1)
        return date(here.year + 1, 1, 1)


def day_of(seconds: float) -> int:
    """The UTC day that holds a Unix time, as days since 1970-01-01."""
    return int(seconds // _DAY_SECONDS)


def instant(seconds: float) -> str:
    """A Unix time in words, for messages."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True, slots=True)
class Budgets:
    """All budgets of one scope, nano-rho.

    Attributes:
        budget: Of all answers of a period; None for no limit.
        unit_budget: The part of it that a unit may spend on individual answers; None for all.
        period: How often they renew.
        strict: Whether individual answers are refused at the public bound.
        thresholds: What thresholds of a period's answers may cost, in 10^-18.
        answers: An answer takes one part in so many of what is left of ``thresholds``.
        gaussian: Whether it is for Gaussian noise alone.
    """

    budget: int | None
    unit_budget: int | None
    period: Period
    strict: bool
    thresholds: int
    answers: int
    gaussian: bool


def budgets(
    *,
    rho: float | None = None,
    epsilon: float | None = None,
    unit_rho: float | None = None,
    unit_epsilon: float | None = None,
    delta: float,
    thresholds: float = SHARES.threshold_pool,
    answers: int = SHARES.answers,
    gaussian: bool = False,
    period: Period | str,
    strict: bool,
) -> Budgets:
    """Budgets from the arguments of `Ledger.set_budget`.

    Raises:
        ConfigurationError: A parameter is outside its range.
    """
    if not 0 <= thresholds < 1:
        raise ConfigurationError("thresholds must be 0 or more and below 1: a part of delta")
    _validate.count("answers", answers)
    # Converted at the rest, so that both together keep the delta that was given.
    pool, delta = thresholds * delta, (1 - thresholds) * delta
    amount = _amount("rho", rho, "epsilon", epsilon, delta, gaussian)
    if amount is None:
        raise ConfigurationError("give the budget as rho or as epsilon")
    unit_amount = _amount("unit_rho", unit_rho, "unit_epsilon", unit_epsilon, delta, gaussian)
    budget = None if amount == math.inf else allowance(exact("rho", amount))
    unit_budget = None if unit_amount is None else allowance(exact("unit_rho", unit_amount))
    if unit_budget is not None and budget is not None and unit_budget > budget:
        raise ConfigurationError("a unit's budget must not be above that of its corpus")
    try:
        renewing = Period(period)
    except ValueError:
        raise ConfigurationError("period must be lifetime, day, month or year") from None
    return Budgets(budget, unit_budget, renewing, strict, whole_delta(pool), answers, gaussian)


def _amount(
    rho_name: str,
    rho: float | None,
    epsilon_name: str,
    epsilon: float | None,
    delta: float,
    gaussian: bool,
) -> float | None:
    """ZCDP rho of a budget given in one of two ways; None where it is not given."""
    if epsilon is None:
        return rho
    if rho is not None:
        raise ConfigurationError(f"give {rho_name} or {epsilon_name}, not both")
    return epsilon_to_rho(epsilon, delta, gaussian=gaussian)


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums over the answers of one scope in one period.

    Attributes:
        fixed: F, of answers that cost every unit the same.
        individual: C, the caps of answers under individual accounting.
    """

    fixed: int
    individual: int


@dataclass(frozen=True, slots=True)
class ScopeBudgets:
    """The budgets of one scope.

    Attributes:
        budget: B, or None where the scope is not limited.
        unit_budget: U, or None where units share the budget of the corpus.
        floor: The individual bound I at the last change of the budgets.
    """

    budget: int | None
    unit_budget: int | None
    floor: int = 0

    def unit_room(self, fixed: int) -> int | None:
        """min(U, B - F): the most that a unit may spend on individual answers; None: no limit."""
        room = None if self.budget is None else max(0, self.budget - fixed)
        given = [value for value in (self.unit_budget, room) if value is not None]
        return min(given, default=None)

    def individual_bound(self, usage: Usage) -> int:
        """I: no unit has spent more than this on individual answers."""
        room = self.unit_room(usage.fixed)
        return usage.individual if room is None else min(usage.individual, max(self.floor, room))

    def spent(self, usage: Usage) -> int:
        """F + I: no unit has lost more than this."""
        return usage.fixed + self.individual_bound(usage)

    def remaining(self, usage: Usage) -> int | None:
        """The most that a fixed answer may still reserve; None: no limit."""
        if self.budget is None:
            return None
        ceiling = self.budget if self.unit_budget is None else self.unit_budget
        promised = min(usage.individual, max(self.floor, ceiling))
        return max(0, self.budget - usage.fixed - promised)

    def unit_remaining(self, usage: Usage) -> int | None:
        """min(U, B - F) - I: what each unit has left for individual answers; None: no limit."""
        room = self.unit_room(usage.fixed)
        return None if room is None else max(0, room - self.individual_bound(usage))


def refused(
    requested: int,
    remaining: int,
    scope: str,
    renews_on: date | None = None,
    *,
    gaussian: bool = False,
) -> BudgetExceededError:
    """The refusal of a budget that cannot pay, in rho and in epsilon, to be raised.

    Args:
        requested: Nano-rho that the request would reserve.
        remaining: Nano-rho left in the scope.
        scope: What the budget belongs to, for example ``corpus 'mail'``.
        renews_on: When it does; None for a lifetime.
        gaussian: It is for Gaussian noise alone.
    """
    asked, left = to_rho(requested), to_rho(remaining)
    # As answers and budgets convert it, whose other part of delta is for thresholds.
    rest = SHARES.beside_pool(DELTA)
    epsilons = (
        rho_to_epsilon(asked, rest, gaussian=gaussian),
        rho_to_epsilon(left, rest, gaussian=gaussian),
    )
    return BudgetExceededError(asked, left, scope, epsilons, renews_on)


class NoBudgetWarning(UserWarning):
    """A ledger has no budget for a corpus: it records what is spent and refuses nothing."""


def warn_of_no_budget(corpus: str) -> None:
    """Warn whoever reserves."""
    warnings.warn(
        f"the ledger has no budget for corpus {corpus!r}: nothing bounds what its units lose over "
        f"many answers. Give it one with ledger.set_budget(corpus={corpus!r}, epsilon=...), or "
        "name the corpus that has one; rho=math.inf says that none is wanted",
        NoBudgetWarning,
        stacklevel=3,
    )


@dataclass(frozen=True, slots=True)
class ScopeStatus:
    """The public state of one scope in its current period. All amounts are zCDP rho.

    Attributes:
        kind: ``corpus`` or ``caller``.
        name: Name of the corpus or the caller.
        budget: Rho per period, or None where the scope is not limited.
        unit_budget: Rho per unit and period under individual accounting, or None if not set apart.
        spent: The bound that holds for every unit: no unit has lost more to released tokens. Under
            individual accounting it stops at the budget of a unit; what a unit has really lost is
            private and is not here.
        reserved: By how much answers in progress may still raise ``spent``.
        remaining: What a fixed answer may still reserve; None where the scope is not limited.
            Individual answers go on after it has reached 0, until ``spent`` by fixed answers alone
            fills the budget.
        unit_remaining: What every unit has left for individual answers, at the least: that of a
            unit which every answer so far has cost its whole bound. None without a limit.
        period: How often the budget renews. A renewing budget protects per period.
        renews_on: First UTC day of the next period; None for a lifetime.
        questions: Answers in this period that released at least one token.
        strict: Whether every answer is refused once ``spent`` has reached the budget. Callers have
            no units, so theirs always are.
        room: The most that an individual answer may reserve, though ``spent`` may have reached the
            budget: it comes from units that have spent less. None without a limit.
        delta: What thresholds of a period's answers may cost together; None without a limit.
        delta_spent: What they have cost.
        delta_remaining: What they may still cost; None without a limit.
        answers: An answer may take one part in so many of ``delta_remaining``.
        gaussian: Whether it is for Gaussian noise alone: then `rho_to_epsilon` is exact for it.
    """

    kind: Literal["corpus", "caller"]
    name: str
    budget: float | None
    unit_budget: float | None
    spent: float
    reserved: float
    remaining: float | None
    unit_remaining: float | None
    period: Period
    renews_on: date | None
    questions: int
    strict: bool
    room: float | None
    delta: float | None = None
    delta_spent: float = 0.0
    delta_remaining: float | None = None
    answers: int = SHARES.answers
    gaussian: bool = False

    @property
    def booking(self) -> Booking:
        """Terms for the answers that it pays for."""
        left = self.delta_remaining
        return Booking(self.gaussian, left / self.answers if left else None)


def least_remaining(
    every: Iterable[ScopeStatus], corpus: str, caller: str | None = None
) -> float | None:
    """Rho left to a corpus or a caller, whichever is less; None without a limit."""
    left = [one.remaining for one in _of(every, corpus, caller)]
    return min((rho for rho in left if rho is not None), default=None)


def least_unit_remaining(every: Iterable[ScopeStatus], corpus: str) -> float | None:
    """Rho that every unit of a corpus has left at the least; None without a limit."""
    mine = [one.unit_remaining for one in _of(every, corpus, None)]
    return mine[0] if mine else None


def booking(every: Iterable[ScopeStatus], corpus: str, caller: str | None = None) -> Booking:
    """Terms of the budgets that an answer comes out of; of each the strictest."""
    mine = [one.booking for one in _of(every, corpus, caller)]
    shares = [one.threshold_delta for one in mine if one.threshold_delta is not None]
    return Booking(any(one.gaussian for one in mine), min(shares, default=None))


def _of(every: Iterable[ScopeStatus], corpus: str, caller: str | None) -> list[ScopeStatus]:
    wanted = {("corpus", corpus), ("caller", caller)}
    return [one for one in every if (one.kind, one.name) in wanted]


def is_budget(status: ScopeStatus, given: Budgets) -> bool:
    """Match of a scope with these budgets; the size of its pool of delta is left out."""
    rho = tuple(None if one is None else to_rho(one) for one in (given.budget, given.unit_budget))
    kind = status.period, status.strict, status.answers, status.gaussian
    has = (status.budget, status.unit_budget, *kind)
    return has == (*rho, given.period, given.strict, given.answers, given.gaussian)


def standing(status: ScopeStatus, price: float, delta: float) -> str:
    """The spent part of a budget, and the fate of the next answer. Public.

    Args:
        status: The budget.
        price: Of one answer, zCDP rho.
        delta: At which epsilon is given.
    """
    delta = delta_of_rho(status, delta)

    def told(rho: float) -> str:
        return f"epsilon {rho_to_epsilon(rho, delta, gaussian=status.gaussian):.3g}"

    spent, answer = told(status.spent), told(price)
    budgets = [rho for rho in (status.unit_budget, status.budget) if rho is not None]
    if not budgets:
        return f"{spent} is spent, and there is no limit."
    limit = told(max(budgets))
    if status.unit_budget is not None:
        limit += f" (a unit alone {told(status.unit_budget)})"
    if status.spent > max(budgets):
        head = f"{spent} was spent, more than the budget of {limit}, which was lowered since."
    else:
        head = f"{spent} of {limit} is spent."
    until = "" if status.renews_on is None else f" until it renews on {status.renews_on}"
    left = affordable(status.unit_remaining, price)
    if left:
        answers = "answer" if left == 1 else "answers"
        return f"{head} What is left pays for {left:,} more {answers} of {answer}{until}."
    asked = price if status.unit_budget is None else min(price, status.unit_budget)
    if status.room is not None and status.room < asked:
        return f"{head} An answer of {answer} is refused{until or ' until the budget is raised'}."
    return (
        f"{head} "
        "That bound holds for every unit. Answers still come, from units that have spent less; a "
        "strict budget refuses them."
    )


def delta_of_rho(status: ScopeStatus, delta: float) -> float:
    """The part of a delta at which a budget's rho is told as epsilon: the rest is its pool's."""
    pool = status.delta or 0.0
    return delta - pool if pool < delta else delta
