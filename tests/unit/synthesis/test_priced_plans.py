"""Plans of syntheses and of tables: their parts add up to the whole, and are printed alike."""

from __future__ import annotations

import json
import math

import pytest

from dpicl_rag.accounting import Adjacency
from dpicl_rag.synthesis import CorpusPlan
from dpicl_rag.synthesis.examples_plan import examples_plan
from dpicl_rag.tabular import FreshCharge
from dpicl_rag.tabular.aggregates import AggregatesPlan
from dpicl_rag.tabular.noisy_tables import tables_charge
from tests.support.private_rows import SCHEMA


def examples(method, rate=None):
    return examples_plan(
        method,
        2,
        epsilon=2.0,
        delta=1e-5,
        texts_per_label=2,
        max_tokens=3,
        experts=20,
        per_expert=1,
        rate=rate,
        candidates=10,
        adjacency=Adjacency.ADD_OR_REMOVE_ONE,
        labels_per_unit=1,
    )


PLANS = {
    "corpus": CorpusPlan(epsilon=8.0),
    "corpus by its list": CorpusPlan(epsilon=8.0, keys="list"),
    "exponential": examples("exponential"),
    "few-shot": examples("few-shot"),
    "tables": tables_charge(SCHEMA, 1.0),
    "tables with delta": tables_charge(SCHEMA, 1.0, 1e-5),
    "aggregates": AggregatesPlan(SCHEMA, ("rich",), 1.0),
    "aggregates of a sample": AggregatesPlan(SCHEMA, ("rich",), 1.0, 0.5),
    "fresh rows": FreshCharge(1.0, 2, 3, 50),
}


@pytest.mark.parametrize("name", PLANS)
def test_parts_add_up_to_the_whole(name):
    plan = PLANS[name]
    assert math.fsum(part.rho for part in plan.parts) == pytest.approx(plan.rho, rel=1e-12)
    assert all(plan.price(part.name) == part.rho > 0 for part in plan.parts)
    assert plan.price("nothing") == 0


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_printed_part_by_part(name):
    plan = PLANS[name]
    *parts, whole = plan.rows()
    assert [row[0] for row in parts] == [part.name for part in plan.parts]
    assert whole == (
        *("whole", f"{plan.rho:.4g}"),
        f"epsilon {plan.epsilon:g}, delta {plan.delta:g}",
    )
    told = json.loads(json.dumps(plan.as_dict()))
    assert (told["epsilon"], told["delta"], told["rho"]) == (plan.epsilon, plan.delta, plan.rho)
    assert [part["rho"] for part in told["parts"]] == [part.rho for part in plan.parts]
    for line in (*(row[2] for row in plan.rows()), *plan.notes()):
        assert line in str(plan)


def test_samples_have_no_charge_in_rho():
    plan = examples("few-shot", rate=0.5)
    assert [part.rho for part in plan.parts] == [plan.rho] == [None]
    assert [row[1] for row in plan.rows()] == ["none", "none"]
    assert plan.price("texts") == 0


def test_a_number_that_a_plan_does_not_have_is_not_printed():
    plan = examples("few-shot")
    assert plan.numbers()["tokens_that_a_unit_pays_for"] is None
    assert not any("pays for" in note for note in plan.notes())
    assert "sigma: " in "\n".join(plan.notes())
