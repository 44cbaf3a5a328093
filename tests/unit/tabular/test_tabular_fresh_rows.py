"""Rows perturbed anew for each query: the exact price of all queries, and planted faults."""

import math
from collections import Counter

import pytest

from dpicl_rag.accounting import zcdp
from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms.discrete_noise import RandomisedResponse
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.tabular.fresh_rows import FreshCharge, FreshRows
from dpicl_rag.tabular.schema import Category, Label, Schema
from dpicl_research.published_sampling import charge_of_reports
from tests.support.scored_units import distribution
from tests.support.tried_coins import Tried

SCHEMA = Schema((Category("ill", ("no", "yes", "often")),), Label("old", ("No", "Yes")))
A, B = {"ill": "no", "old": "No"}, {"ill": "yes", "old": "Yes"}


def respond(response, value, randomness):
    return randomness.choose(
        [
            (other, response.kept if other == value else response.other)
            for other in range(response.size)
        ]
    )


def chances(rows, monkeypatch, *, asked=None, **settings):
    """Exact distribution of what all queries show, or the first ``asked`` of them."""
    monkeypatch.setattr(RandomisedResponse, "draw", respond)

    def run(choose):
        fresh = FreshRows(rows, SCHEMA, randomness=Tried(choose), **settings)
        shown = [fresh.for_query() for _ in range(asked or settings["queries"])]
        return str(shown)

    return distribution(run)


def loss(one, other, monkeypatch, **settings):
    """Largest log ratio between two tables, in either direction."""
    found = [chances(rows, monkeypatch, **settings) for rows in (one, other)]
    if set(found[0]) != set(found[1]):
        return math.inf
    return max(abs(math.log(found[0][shown] / found[1][shown])) for shown in found[0])


NEIGHBOURS = [([A, B], [B, B]), ([A, A], [B, A]), ([A, B], [{}, B]), ([{}, A], ["no row", A])]
SETTINGS = {"epsilon": 2.0, "k": 1, "queries": 2}


def dearest(monkeypatch, pairs=NEIGHBOURS, **settings):
    return max(loss(*pair, monkeypatch, **settings) for pair in pairs)


@pytest.mark.parametrize("method", ["bits", "one-hot"])
def test_all_queries_cost_epsilon_and_no_less(monkeypatch, method):
    pairs = NEIGHBOURS[:2] if method == "one-hot" else NEIGHBOURS
    found = dearest(monkeypatch, pairs, **SETTINGS, method=method)
    assert found == pytest.approx(2.0, rel=1e-9)


def test_one_query_costs_its_share(monkeypatch):
    found = dearest(monkeypatch, **SETTINGS, asked=1)
    assert found == pytest.approx(FreshCharge(**SETTINGS, people=2).query_epsilon, rel=1e-9)


def test_two_of_three_rows_are_drawn_in_secret(monkeypatch):
    pairs = [([A, B, B], [B, B, B]), ([A, B, A], [A, A, A])]
    found = dearest(monkeypatch, pairs, epsilon=1.5, k=2, queries=1)
    assert found == pytest.approx(1.5, rel=1e-9)


def test_all_rows_are_shown_without_amplification(monkeypatch):
    found = dearest(monkeypatch, epsilon=1.5, k=2, queries=1)
    assert found == pytest.approx(1.5, rel=1e-9)


# Planted faults.


def test_fresh_noise_that_is_charged_once_is_found(monkeypatch):
    monkeypatch.setattr(FreshCharge, "query_epsilon", property(lambda charge: charge.epsilon))
    assert dearest(monkeypatch, **SETTINGS) == pytest.approx(4.0)  # where 2 is promised


def test_the_paper_s_own_charge_is_found(monkeypatch):
    """Every report has the epsilon that is claimed for all of them."""
    monkeypatch.setattr(FreshCharge, "report_epsilon", property(lambda charge: charge.epsilon))
    found = dearest(monkeypatch, **SETTINGS)
    assert found == pytest.approx(charge_of_reports(2.0, 1, 2, 2).epsilon)
    assert found > 2.8  # where 2 is claimed


def test_a_sample_that_is_no_secret_is_found(monkeypatch):
    monkeypatch.setattr(FreshRows, "_sampled", lambda fresh: fresh._rows[: fresh.charge.k])
    assert dearest(monkeypatch, **SETTINGS) > 2.9


def test_one_hot_bits_charged_as_one_a_column_are_found(monkeypatch):
    monkeypatch.setattr("dpicl_rag.tabular.local_privacy.RowBits.flips", property(lambda _: 2))
    pairs = [([A], [B])]
    assert dearest(monkeypatch, pairs, epsilon=2.0, k=1, queries=1, method="bits") <= 2.0 + 1e-9
    assert dearest(monkeypatch, pairs, epsilon=2.0, k=1, queries=1, method="one-hot") > 2.9


# The charge, and what is shown.


def test_the_charge_is_never_above_what_is_promised():
    for queries in (1, 3, 7, 30, 10**4):
        charge = FreshCharge(1.0, 4, queries, 5000)
        assert charge.query_epsilon * queries <= 1.0 + 1e-12
        again = charge_of_reports(charge.report_epsilon, 4, queries, 5000)
        assert 1.0 - 1e-9 < again.epsilon <= 1.0 + 1e-12


def test_each_query_is_paid_for_by_itself(tmp_path):
    charge = FreshCharge(2.0, 2, 4, 5)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=2.5 * zcdp(0.5))
        fresh = FreshRows([A, B, A, B, B], SCHEMA, 2.0, k=2, queries=4, ledger=ledger)
        assert fresh.charge == charge
        assert [len(fresh.for_query()) for _ in range(2)] == [2, 2]
        assert ledger.status()[0].spent == pytest.approx(2 * charge.query_rho, abs=1e-8)
        with pytest.raises(BudgetExceededError):
            fresh.for_query()


def test_no_more_queries_than_were_planned():
    fresh = FreshRows([A, B], SCHEMA, 1.0, k=2, queries=2)
    for _ in range(2):
        fresh.for_query()
    with pytest.raises(ConfigurationError, match="all 2 queries are asked"):
        fresh.for_query()
    assert "ill" not in repr(fresh)


def test_every_row_is_drawn_as_often():
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(3)
    rows = [A] * 3 + [B]
    fresh = FreshRows(rows, SCHEMA, 1e5, k=2, queries=600, randomness=coins)
    seen = Counter(row["ill"] for _ in range(600) for row in fresh.for_query())
    assert seen["yes"] == pytest.approx(300, abs=50)
    assert set(seen) == {"no", "yes"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": 3}, "at most the number of rows"),
        ({"k": 0}, "k must be"),
        ({"queries": 0}, "queries must be"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"method": "one-attribute"}, "bits or one-hot"),
    ],
)
def test_settings_are_checked(change, said):
    with pytest.raises(ConfigurationError, match=said):
        FreshRows([A, B], SCHEMA, **{**SETTINGS, **change})
