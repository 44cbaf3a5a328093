"""Noisy tables: their price between all neighbours, and planted faults that the check finds."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dpicl_rag.accounting import Adjacency, epsilon_to_rho, rho_to_epsilon
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.tabular import noisy_tables as room
from dpicl_rag.tabular.charge import Charge, one_each
from dpicl_rag.tabular.noisy_tables import (
    NoisyTables,
    exact_counts,
    read_tables,
    release_tables,
    tables_charge,
)
from dpicl_rag.tabular.schema import Category, Encoded, Label, Number, Schema
from dpicl_research.table_releases import noiseless
from tests.support.private_rows import BASE, EVERY_ROW, SCHEMA, dearest, price

BOTH = list(Adjacency)


def numbers(found: NoisyTables) -> list[int]:
    return [number for table in found.counts for row in table for number in row]


def release(adjacency, epsilon=1.0, delta=0.0, schema=SCHEMA):
    return lambda rows: numbers(
        release_tables(rows, schema, epsilon, delta=delta, adjacency=adjacency)
    )


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.0])
def test_the_price_of_laplace_noise_is_met_exactly(adjacency, epsilon):
    assert dearest(release(adjacency, epsilon), adjacency) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("adjacency", BOTH)
def test_the_price_of_gaussian_noise_is_met(adjacency):
    rho = dearest(release(adjacency, 2.0, 1e-5), adjacency)
    whole = epsilon_to_rho(2.0, SHARES.beside_pool(1e-5))  # as a budget of epsilon 2 is kept
    assert 0.999 * whole < rho <= whole
    assert rho_to_epsilon(rho, 1e-5) <= 2.0


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_ledger_is_charged_what_it_costs(adjacency, delta, tmp_path):
    charge = tables_charge(SCHEMA, 1.0, delta, adjacency)
    if not delta:  # each count by itself, at the worst ratio that its noise has
        share = Fraction(1) / charge.moves
        assert charge.rho == pytest.approx(charge.moves * share * math.tanh(share / 2))
        assert charge.rho <= 1.0**2 / 2
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="people", rho=charge.rho + 1e-9)
        given = {"delta": delta, "adjacency": adjacency, "ledger": ledger, "corpus": "people"}
        release_tables(BASE, SCHEMA, 1.0, **given)
        (status,) = ledger.status()
        assert status.spent == pytest.approx(charge.rho, abs=2e-9)
        with pytest.raises(BudgetExceededError):
            release_tables(BASE, SCHEMA, 1.0, **given)


def test_the_release_is_charged_before_it_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "dpicl_rag.ledger.reservation.Reservation.commit",
        lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", epsilon=1.0)
        with pytest.raises(KeyboardInterrupt):
            release_tables(BASE, SCHEMA, 0.4, ledger=ledger)


# Planted faults.


def test_a_replacement_charged_as_an_arrival_is_found(monkeypatch):
    """A column that changes takes 1 from one count and adds it to another; charged once."""
    monkeypatch.setattr(Charge, "moves", property(lambda charge: charge.touched))
    found = dearest(release(Adjacency.REPLACE_ONE), Adjacency.REPLACE_ONE)
    assert found == pytest.approx(2.0)


def test_a_domain_from_the_data_is_found():
    def from_data(rows):
        jobs = tuple(sorted({"clerk", *(str(row.get("job", "?")) for row in rows)}))
        own = Schema((Category("job", jobs),), SCHEMA.label)
        return numbers(release_tables(rows, own, 1.0))

    assert dearest(from_data, Adjacency.ADD_OR_REMOVE_ONE, BASE[:3]) == math.inf


def test_cut_points_from_the_data_are_found():
    def at_the_mean(rows):
        mean = float(np.mean([row["age"] for row in rows]))
        return numbers(
            release_tables(rows, Schema((Number("age", 0, 100, (mean,)),), SCHEMA.label), 1.0)
        )

    young = [{"age": age, "rich": "1"} for age in (20, 40, 41, 42)]
    assert price(at_the_mean, young, [*young, {"age": 100, "rich": "1"}]) == 5.0


def test_a_support_of_counts_that_are_not_zero_is_found(monkeypatch):
    def not_zero(encoded, schema):
        return [
            [[number for number in row if number] for row in table]
            for table in exact_counts(encoded, schema)
        ]

    monkeypatch.setattr(room, "exact_counts", not_zero)
    assert dearest(release(BOTH[0]), BOTH[0]) == math.inf


def test_a_row_that_counts_twice_is_found():
    """Two rows of one unit, both counted."""
    both = [*BASE, BASE[1], BASE[1]]
    assert price(release(BOTH[0]), BASE, both) == pytest.approx(2.0)


def test_a_column_left_out_of_the_charge_is_found(monkeypatch):
    monkeypatch.setattr(room, "tables_charge", lambda s, e, d, a: Charge(e, d, 2, 9, a))
    assert dearest(release(BOTH[0]), BOTH[0]) == pytest.approx(1.5)


# What rows cannot do.


def test_one_row_of_each_unit_counts():
    rows, units = [*BASE, *EVERY_ROW[:5]], ["a", "b", "c", "d", "a", "a", "b", "c", "d"]

    def own(of):
        return lambda pairs: numbers(
            release_tables(
                [row for _, row in pairs], SCHEMA, 1.0, units=[unit for unit, _ in pairs]
            )
        )

    pairs = list(zip(units, rows, strict=True))
    without = [pair for pair in pairs if pair[0] != "a"]
    assert price(own(units), pairs, without) == pytest.approx(1.0)
    with pytest.raises(ConfigurationError, match="a unit for each row"):
        release_tables(rows, SCHEMA, 1.0, units=["a"])


def test_rows_outside_the_schema_are_no_error():
    odd = [
        {},
        {"age": None, "rich": "1"},
        {"age": "x", "job": 7, "gain": float("nan"), "rich": "1"},
    ]
    counted = exact_counts(map(SCHEMA.encode, odd), SCHEMA)
    assert counted[0] == [[0, 0, 0], [2, 0, 0]]
    assert counted[1] == [[0, 0, 0], [0, 0, 2]]
    release_tables([], SCHEMA, 1.0).rows(3)


class Failing:
    """A cell, or a unit, of a kind that fails."""

    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize("odd", [None, 7, "row", [], {"age": Failing(), "rich": Failing()}])
def test_what_is_no_row_moves_no_other(odd):
    released = release(Adjacency.ADD_OR_REMOVE_ONE)
    assert price(released, BASE, [*BASE, odd]) == 0
    assert price(released, [odd, *BASE], BASE) == 0


@pytest.mark.parametrize("odd", [["a"], {}, None, 5, math.nan, b"a"], ids=repr)
def test_a_unit_that_is_no_name_moves_no_other(odd):
    units = [f"unit {at}" for at in range(len(BASE))]
    for row in EVERY_ROW[:4]:
        kept = one_each([*BASE, row], [*units, odd])
        assert kept[: len(BASE)] == BASE
        assert kept[len(BASE) :] in ([], [row])


# What follows from a release.


def test_rows_are_drawn_label_first_and_follow_the_tables():
    exact = noiseless(BASE * 400, SCHEMA)
    with pytest.warns(NotPrivateWarning):
        made = exact.rows(3000, SeededRandomness(3))
    yes = [row for row in made if row["rich"] == "Yes"]
    assert len(yes) / len(made) == pytest.approx(2 / 3, abs=0.03)
    assert sum(row["job"] == "smith" for row in yes) / len(yes) == pytest.approx(0.5, abs=0.04)
    assert {row["gain"] for row in yes} == {-5, 20}
    assert {row["age"] for row in made} <= {15, 45, 80}


def test_a_release_is_read_back(tmp_path):
    made = release_tables(BASE, SCHEMA, 1.0)
    kept = json.loads(json.dumps(made.to_json()))
    assert read_tables(kept, SCHEMA) == made
    other = Schema(SCHEMA.columns, Label("rich", ("No", "Yes", "Both")))
    with pytest.raises(ConfigurationError, match="another schema"):
        read_tables(kept, other)


def test_noise_that_outweighs_the_rows_still_predicts():
    loud = release_tables(BASE, SCHEMA, 1e-3)
    assert loud.naive_bayes().predict(BASE[0]) in SCHEMA.label.values
    certain = noiseless([BASE[0]] * 50 + [BASE[1]] * 50, SCHEMA).naive_bayes()
    assert [certain.predict(row) for row in BASE[:2]] == ["No", "Yes"]
    assert SCHEMA.encode(BASE[2]) == Encoded((2, 2, 1), 1)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0), (-1, 0), (math.inf, 0), (1, 1), (1, -1)])
def test_budgets_out_of_range(epsilon, delta):
    with pytest.raises(ConfigurationError):
        release_tables(BASE, SCHEMA, epsilon, delta=delta)
