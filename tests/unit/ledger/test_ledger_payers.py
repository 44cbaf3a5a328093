"""Joins of a corpus go over the scopes that have paid for it, and no others."""

from __future__ import annotations

import pytest

from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger

UNITS = [f"case {number}" for number in range(40)]


def pay(ledger: Ledger, scope: str, source: str | None, **unit_rho: float) -> None:
    with ledger.reserve(corpus=scope, source=source, rho=0.5, units=list(unit_rho)) as reservation:
        reservation.commit(0.5, list(unit_rho.values()))


def left(ledger: Ledger, scope: str, *units: str) -> list[float]:
    with ledger.reserve(corpus=scope, rho=10.0, at_least=1e-9, units=units) as reservation:
        assert reservation.limits is not None
        return reservation.limits


@pytest.mark.parametrize("source", ["legal", None])
def test_the_owner_of_one_corpus_empties_no_units_of_another(
    ledger: Ledger, source: str | None
) -> None:
    """Rows of `shop` whose keys are those of `legal` join all its units; `legal` has its own."""
    ledger.set_budget(corpus="legal", rho=2.0)
    ledger.set_budget(corpus="shop", rho=2.0)
    pay(ledger, "legal", source, **dict.fromkeys(UNITS, 0.1))
    pay(ledger, "shop", "shop", **dict.fromkeys(UNITS, 0.1))
    ledger.merge_units("shop", dict.fromkeys(UNITS[1:], UNITS[0]))
    assert left(ledger, "legal", *UNITS) == [1.9] * len(UNITS)
    assert left(ledger, "shop", *UNITS) == [0.0] * len(UNITS)


def test_a_scope_that_paid_for_the_corpus_follows_its_joins(ledger: Ledger) -> None:
    for scope in ("letters", "other"):
        ledger.set_budget(corpus=scope, rho=2.0)
    pay(ledger, "letters", "mail", b=0.3)
    pay(ledger, "other", "notes", b=0.3)
    ledger.merge_units("mail", {"b": "a"})
    assert left(ledger, "letters", "a") == [1.7]
    assert left(ledger, "other", "a") == [2.0]
    ledger.separate_units("mail", ["a", "b"])
    assert left(ledger, "letters", "a", "b") == [2.0, 1.7]


def test_units_that_a_payer_has_never_seen_are_joined_all_the_same(ledger: Ledger) -> None:
    """They may be asked of under any of their names later."""
    ledger.set_budget(corpus="letters", rho=2.0)
    pay(ledger, "letters", "mail", c=0.1)
    ledger.merge_units("mail", {"b": "a"})
    pay(ledger, "letters", "mail", a=0.5)
    assert left(ledger, "letters", "b") == [1.5]


def test_the_payer_is_known_as_soon_as_it_holds_a_budget(ledger: Ledger) -> None:
    """An answer in progress has not been charged; a join finds its scope."""
    ledger.set_budget(corpus="letters", rho=2.0)
    running = ledger.reserve(corpus="letters", source="mail", rho=0.5, units=["a", "b"])
    ledger.merge_units("mail", {"b": "a"})
    running.commit(0.5, [0.25, 0.25])
    running.close()
    assert left(ledger, "letters", "b") == [1.0]


def test_answers_at_a_fixed_price_make_a_payer(ledger: Ledger) -> None:
    ledger.set_budget(corpus="letters", rho=2.0)
    with ledger.reserve(corpus="letters", source="mail", rho=0.4) as reservation:
        reservation.commit(0.4)
    ledger.merge_units("mail", {"b": "a"})
    assert left(ledger, "letters", "a") == pytest.approx([0.4], abs=1e-8)


def test_a_refused_answer_leaves_no_note(ledger: Ledger) -> None:
    ledger.set_budget(corpus="legal", rho=0.4)
    with pytest.raises(BudgetExceededError):
        pay(ledger, "legal", "shop", a=0.1)
    ledger.set_budget(corpus="legal", rho=2.0)
    pay(ledger, "legal", "legal", a=0.1, b=0.1)
    ledger.merge_units("shop", {"b": "a"})
    assert left(ledger, "legal", "a", "b") == [1.9, 1.9]


def test_a_source_is_a_name(ledger: Ledger) -> None:
    with pytest.raises(ConfigurationError, match="name of a corpus"):
        ledger.reserve(corpus="mail", rho=0.1, source="")
