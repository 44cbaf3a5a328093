"""A store is paid for by one unit: by two fields of its records a person has two budgets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger
from tests.support.fresh_python import run_python

IN_A_PROCESS = """
import os, sys
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger import Ledger
path, field, cost = sys.argv[1:]
ledger = Ledger(path)
try:
    held = ledger.reserve(corpus="notes", rho=0.6, units=["ann"], unit_field=field)
except ConfigurationError:
    print("refused")
else:
    if float(cost):
        held.commit(float(cost), [float(cost)])
    print("held")
sys.stdout.flush()
os._exit(0)  # nothing is closed
"""


def pay(ledger: Ledger, field: str | None, units: tuple[str, ...] = ("ann",), **more: Any) -> None:
    asked = {"corpus": "notes", "unit_field": field, **more}
    with ledger.reserve(rho=0.5, at_least=1e-9, units=units, **asked) as reservation:
        reservation.commit(reservation.rho, reservation.limits)


def by_unit(ledger: Ledger, field: str | None, **more: Any) -> bool:
    """Whether the ledger lets an answer by a unit be paid for."""
    try:
        pay(ledger, field, **more)
    except ConfigurationError:
        return False
    return True


def test_a_second_unit_pays_nothing_and_a_line_says_what_to_do(ledger: Ledger) -> None:
    ledger.set_budget(corpus="notes", rho=1.0)
    pay(ledger, "patient")
    before = ledger.status()
    with pytest.raises(ConfigurationError) as refused:
        pay(ledger, "document", ("ann 1", "ann 2"))
    (line,) = str(refused.value).splitlines()
    assert all(word in line for word in ("'patient'", "corpora adopt", "corpora release"))
    assert ledger.status() == before
    pay(ledger, "patient")
    with pytest.raises(BudgetExceededError):  # not a millionth more, by whatever name
        ledger.reserve(corpus="notes", rho=1e-6, unit_field="patient")


def test_the_unit_is_that_of_a_store_in_the_scope_that_pays(ledger: Ledger) -> None:
    pay(ledger, "patient", corpus="letters", source="notes")
    assert not by_unit(ledger, "document", corpus="letters", source="notes")
    assert by_unit(ledger, "document", corpus="letters", source="mail")
    assert by_unit(ledger, None, corpus="letters", source="notes")  # a list says its units itself
    assert ledger.units_charged("notes") == {"patient"}
    assert ledger.units_charged("mail") == {"document"}
    assert ledger.units_charged("letters") == {None}
    assert ledger.units_charged("nothing") == set()


def test_a_unit_by_which_nothing_was_spent_gives_way(ledger: Ledger, clock: Any) -> None:
    ledger.set_budget(corpus="notes", rho=1.0, period="day")
    held = ledger.reserve(corpus="notes", rho=0.5, units=["ann"], unit_field="patients")
    assert not by_unit(ledger, "patient")  # it may still commit
    held.close()
    assert by_unit(ledger, "patient")
    clock.pass_days(40)  # spent for life: a budget may be given another period
    assert not by_unit(ledger, "patients")


def test_who_is_there_decides_nothing(path: Path, clock: Any) -> None:
    """Neighbours: a unit more, that spends all, or that has spent all before."""
    told = []
    for number, units in enumerate(((), ("ann",), ("ann", "bob"))):
        with Ledger(path.with_name(f"{number}.sqlite"), key=b"0" * 16, clock=clock) as ledger:
            ledger.set_budget(corpus="notes", rho=1.0)
            answers = [
                by_unit(ledger, field, units=units) for field in ("who", "id", None, "who", "id")
            ]
            told.append((answers, ledger.units_charged("notes"), ledger.status()))
    assert told[0] == told[1] == told[2]
    assert told[0][0] == [True, False, True, True, False]


@pytest.mark.parametrize("cost", [0.0, 0.2])
def test_a_killed_process_leaves_the_unit_of_what_it_released(path: Path, cost: float) -> None:
    assert run_python(IN_A_PROCESS, path, "patient", cost).stdout.strip() == "held"
    with Ledger(path) as ledger:
        assert by_unit(ledger, "document") is not bool(cost)


def test_of_many_at_once_one_unit_is_paid_for(path: Path) -> None:
    def work(number: int) -> set[str]:
        field, paid = ("patient", "document")[number % 2], set()
        with Ledger(path) as ledger:
            for _ in range(5):
                if by_unit(ledger, field):
                    paid.add(field)
        return paid

    with ThreadPoolExecutor(6) as pool:
        paid = set().union(*pool.map(work, range(6)))
    with Ledger(path) as ledger:
        assert ledger.units_charged("notes") == paid
    assert len(paid) == 1
