"""The spend of a scope and the rest that it can promise: arithmetic on public numbers alone.

A corpus takes two kinds of answers. A *fixed* answer costs every unit the same rho. An *individual*
answer with cap c costs unit i some r_i <= c that is private, and a filter keeps the sum of a unit's
r_i within its budget (Feldman and Zrnic 2021; Renyi/zCDP filter). Write

- B for the budget of the corpus and U <= B for the budget of a unit (U = B where none is given),
- F for the sum of fixed answers, C for the sum of the caps of individual answers,
- S_i for what individual answers have cost unit i.

The promise is F + S_i <= B for every unit i. S_i is private, so decisions about it use the bound
S_i <= min(C, U, B - F) =: I, which is public:

- a fixed answer of rho is allowed while F + rho <= B - min(C, U);
- an individual answer holds at most min(U, B - F) - S_i for unit i. It never asks the others.

So individual answers go on after their caps have filled the budget: from then on units fall silent
one by one, and the corpus has nothing left to promise to fixed answers. What is reported as spent
is F + I.

``floor`` keeps the bound true when a budget is lowered: what was possible before stays counted.
All amounts are nano-rho.
"""

from __future__ import annotations

from dataclasses import dataclass


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
        return _least(self.unit_budget, room)

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
        """min(U, B - F) - I: what every unit has left for individual answers, at the least.

        None: no limit.
        """
        room = self.unit_room(usage.fixed)
        return None if room is None else max(0, room - self.individual_bound(usage))


def _least(first: int | None, second: int | None) -> int | None:
    given = [value for value in (first, second) if value is not None]
    return min(given, default=None)
