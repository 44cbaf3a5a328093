"""Any order of calls, against a model that keeps every answer in a list."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from dpicl_rag.errors import BudgetExceededError
from dpicl_rag.ledger import Ledger, Reservation

UNITS = ["a", "b", "c"]
CALLERS = ["ann", "bob"]
START = date(2026, 1, 30)

# Tenths of a rho, so that the model adds integers.
tenths = st.integers(0, 12)


def rho(amount: int) -> float:
    return amount / 10


def near(left: float, right: int) -> bool:
    return abs(left - rho(right)) < 1e-6


@dataclass
class Answer:
    """One reservation as the model sees it, in tenths."""

    caller: str | None
    individual: bool
    day: int
    held: int
    reservation: Reservation
    holds: dict[str, int] = field(default_factory=dict)
    public: int = 0
    charged: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    open: bool = True

    @property
    def committed(self) -> int:
        return min(self.public, self.held)

    def counted(self, held: bool) -> int:
        return self.held if held and self.open else self.committed


class LedgerMachine(RuleBasedStateMachine):
    answers = Bundle("answers")

    @initialize(
        budget=st.none() | tenths,
        unit_budget=st.none() | tenths,
        caller_budget=st.none() | tenths,
        period=st.sampled_from(["lifetime", "month", "day"]),
    )
    def open(
        self,
        budget: int | None,
        unit_budget: int | None,
        caller_budget: int | None,
        period: str,
    ) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "budget.sqlite"
        self.day = 0
        self.period = period
        self.budget, self.unit_budget, self.cut = budget, unit_budget, False
        self.caller_budget = caller_budget
        self.history: list[Answer] = []
        self.ledgers = [Ledger(self.path, clock=self.clock), Ledger(self.path, clock=self.clock)]
        self.set_corpus_budget()
        for caller in CALLERS:
            self.ledgers[0].set_budget(
                caller=caller,
                rho=float("inf") if caller_budget is None else rho(caller_budget),
                period=period,
            )

    def clock(self) -> float:
        days = (START - date(1970, 1, 1)).days + self.day
        return days * 86_400 + 43_200.0

    def set_corpus_budget(self) -> None:
        if self.budget is not None and self.unit_budget is not None:
            self.unit_budget = min(self.unit_budget, self.budget)
        self.ledgers[1].set_budget(
            corpus="mail",
            rho=float("inf") if self.budget is None else rho(self.budget),
            unit_rho=None if self.unit_budget is None else rho(self.unit_budget),
            period=self.period,
        )

    def current(self, answer: Answer) -> bool:
        here, then = START + timedelta(days=self.day), START + timedelta(days=answer.day)
        return {
            "lifetime": True,
            "month": (here.year, here.month) == (then.year, then.month),
            "day": here == then,
        }[self.period]

    def fixed(self, *, held: bool) -> int:
        return sum(a.counted(held) for a in self.history if self.current(a) and not a.individual)

    def caps(self, *, held: bool) -> int:
        return sum(a.counted(held) for a in self.history if self.current(a) and a.individual)

    def unit_spent(self, unit: str) -> int:
        """What closed answers of this period and all open ones have taken from a unit."""
        return sum(
            a.holds.get(unit, 0) if a.open else a.charged.get(unit, 0)
            for a in self.history
            if a.open or self.current(a)
        )

    def caller_left(self, caller: str | None) -> int | None:
        if caller is None or self.caller_budget is None:
            return None
        used = sum(a.counted(True) for a in self.history if self.current(a) and a.caller == caller)
        return self.caller_budget - used

    def unit_room(self) -> int | None:
        rooms = [] if self.unit_budget is None else [self.unit_budget]
        if self.budget is not None:
            rooms.append(max(0, self.budget - self.fixed(held=True)))
        return min(rooms, default=None)

    def fixed_left(self) -> int | None:
        if self.budget is None:
            return None
        ceiling = self.budget if self.unit_budget is None else self.unit_budget
        taken = self.fixed(held=True) + min(self.caps(held=True), ceiling)
        return max(0, self.budget - taken)

    @rule(
        target=answers,
        caller=st.none() | st.sampled_from(CALLERS),
        amount=tenths,
        least=st.none() | st.integers(1, 12),
        units=st.none() | st.lists(st.sampled_from(UNITS), unique=True),
        which=st.integers(0, 1),
    )
    def reserve(
        self,
        caller: str | None,
        amount: int,
        least: int | None,
        units: list[str] | None,
        which: int,
    ) -> object:
        if least is not None:
            amount = max(amount, least)
        wanted = amount
        if units is not None and self.unit_budget is not None:
            wanted = min(amount, self.unit_budget)
        room = self.fixed_left() if units is None else self.unit_room()
        rooms = [r for r in (room, self.caller_left(caller)) if r is not None]
        needed = wanted if least is None else least
        payable = all(r >= needed for r in rooms)
        try:
            reservation = self.ledgers[which].reserve(
                corpus="mail",
                caller=caller,
                rho=rho(amount),
                at_least=None if least is None else rho(least),
                units=units,
            )
        except BudgetExceededError:
            # After a cut the ledger keeps more in reserve than this model knows.
            assert not payable or (self.cut and units is None)
            return multiple()
        assert payable
        held = round(reservation.rho * 10)
        expected = min([wanted, *rooms])
        assert held == expected or (self.cut and units is None and held <= expected)
        limits = reservation.limits
        unit_room = self.unit_room()
        holds = dict.fromkeys(units or [], held)
        if unit_room is not None:
            for unit in holds:
                holds[unit] = max(0, min(held, unit_room - self.unit_spent(unit)))
        if units is None:
            assert limits is None
        else:
            assert limits is not None
            assert [round(limit * 10, 6) for limit in limits] == list(holds.values())
        answer = Answer(caller, units is not None, self.day, held, reservation, holds)
        self.history.append(answer)
        self.check_promise(answer)
        return answer

    def check_promise(self, answer: Answer) -> None:
        """Whatever open answers still commit, a unit that can be charged keeps the promise."""
        if self.budget is None or not answer.held:
            return
        for unit in UNITS:
            if not answer.individual or answer.holds.get(unit):
                assert self.fixed(held=True) + self.unit_loss(unit) <= self.budget

    def unit_loss(self, unit: str) -> int:
        return sum(
            a.holds.get(unit, 0) if a.open else a.charged.get(unit, 0)
            for a in self.history
            if self.current(a)
        )

    @rule(answer=answers, step=st.integers(0, 4), data=st.data())
    def commit(self, answer: Answer, step: int, data: st.DataObject) -> None:
        if not answer.open:
            return
        if not answer.individual:
            if answer.public + step > answer.held:
                with pytest.raises(BudgetExceededError):
                    answer.reservation.commit(rho(step))
                return
            answer.reservation.commit(rho(step))
        else:
            committed = min(answer.public + step, answer.held)
            own = {}
            for unit, hold in answer.holds.items():
                most = min(hold, committed) - answer.charged.get(unit, 0)
                own[unit] = data.draw(st.integers(0, max(0, most)))
            answer.reservation.commit(rho(step), [rho(amount) for amount in own.values()])
            for unit, amount in own.items():
                answer.charged[unit] = answer.charged.get(unit, 0) + amount
        answer.public += step
        answer.tokens += 1

    @rule(answer=consumes(answers))
    def close(self, answer: Answer) -> None:
        answer.reservation.close()
        answer.open = False

    @rule(units=st.lists(st.sampled_from(UNITS), unique=True))
    def forget(self, units: list[str]) -> None:
        self.ledgers[0].forget_units("mail", units)

    @rule(budget=st.none() | tenths, unit_budget=st.none() | tenths)
    def change_budgets(self, budget: int | None, unit_budget: int | None) -> None:
        self.budget, self.unit_budget = budget, unit_budget
        self.cut = True
        self.set_corpus_budget()

    @rule(days=st.integers(1, 3))
    def pass_days(self, days: int) -> None:
        self.day += days

    @precondition(lambda self: not any(a.open for a in self.history))
    @rule()
    def reopen(self) -> None:
        self.ledgers[1].close()
        self.ledgers[1] = Ledger(self.path, clock=self.clock)

    @invariant()
    def status_is_public_and_true(self) -> None:
        corpus, *callers = self.ledgers[0].status()
        fixed = self.fixed(held=False)
        worst = max(
            sum(a.charged.get(unit, 0) for a in self.history if self.current(a)) for unit in UNITS
        )
        assert corpus.spent >= rho(fixed + worst) - 1e-6
        assert corpus.spent <= rho(fixed + self.caps(held=False)) + 1e-6
        assert corpus.questions == sum(1 for a in self.history if self.current(a) and a.tokens)
        if not self.cut:
            left = self.fixed_left()
            assert corpus.remaining is None if left is None else near(corpus.remaining or 0.0, left)
            if self.budget is not None:
                assert corpus.spent + corpus.reserved <= rho(self.budget) + 1e-6
        for status in callers:
            mine = [a for a in self.history if self.current(a) and a.caller == status.name]
            assert near(status.spent, sum(a.committed for a in mine))
            assert near(status.spent + status.reserved, sum(a.counted(True) for a in mine))

    def teardown(self) -> None:
        if hasattr(self, "ledgers"):
            for ledger in self.ledgers:
                ledger.close()
            self.folder.cleanup()


LedgerMachine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLedgerMachine = LedgerMachine.TestCase
