"""Keys of a model that can be silent, as `benchmarks.spending` counts them."""

import pytest

from benchmarks.key_odds import key_odds
from benchmarks.spending import agreement_plan
from dpicl_rag.answering.canonical_form import canonical_form, vote_for
from dpicl_rag.mechanisms.randomness import NotPrivateWarning
from tests.support.tiny_model import build_tiny_model

QUESTION = "Who is it?"
DRAWS = 150


def is_right(key: str) -> bool:
    return "farquar" in key.casefold()


pytestmark = pytest.mark.filterwarnings(f"ignore::{NotPrivateWarning.__module__}.NotPrivateWarning")


@pytest.mark.parametrize("booked", [False, True])
def test_keys_are_released_as_often_as_the_plan_says(booked):
    plan = agreement_plan(4.0, booked, QUESTION)
    vote = vote_for("It is Ilse Farquar.", QUESTION, canonical_form, by_parts=True)
    needed, tokenizer = plan.units_to_agree, build_tiny_model().tokenizer
    found = {}
    for units in (needed - 2, needed, needed + 2):
        votes = [vote] * units + [None] * 5
        good, bad, rho = key_odds(plan, tokenizer, 1, votes, is_right, DRAWS, 7)
        chance, price = plan.ladder.outcome(units)
        assert bad == 0
        assert good == pytest.approx(chance, abs=0.1)
        assert rho == pytest.approx(price, rel=0.15)
        found[units] = good
    assert found[needed - 2] < found[needed + 2]


def test_nobody_releases_nothing():
    plan = agreement_plan(4.0, False, QUESTION)
    tokenizer = build_tiny_model().tokenizer
    assert key_odds(plan, tokenizer, 1, [None] * 9, bool, 50, 0)[:2] == (0.0, 0.0)
