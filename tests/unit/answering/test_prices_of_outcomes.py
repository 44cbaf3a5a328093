"""What an answer costs by how it ends, exactly: of every mix of counts, and what goes back."""

import math
from collections import Counter, defaultdict
from dataclasses import replace
from functools import lru_cache

import pytest

from dpicl_rag.accounting.stability import DIRECT, Adjacency
from dpicl_rag.answering.canonical_form import SentenceVote
from dpicl_rag.answering.ladder import Ladder
from dpicl_rag.answering.whole_answers import WholeAnswer
from dpicl_rag.ledger import Account
from dpicl_rag.mechanisms.privacy_filters import privacy_filter
from dpicl_rag.mechanisms.private_counts import Agreed, Agreement, TopCount
from dpicl_rag.mechanisms.value_counts import ValueCounts
from tests.support.scored_units import distribution
from tests.support.top_counts import enumerate_top_counts
from tests.unit.mechanisms import test_agreement, test_value_counts
from tests.unit.retrieval.test_private_distributions import deficit
from tests.unit.test_exact_agreement import Book, Coins

ADD = Adjacency.ADD_OR_REMOVE_ONE
RHO, DELTA, FALSE = 2.0, 0.02, 0.05
KEYS = Ladder.behind_top_count(RHO, DELTA, DIRECT, ADD, 1)
VALUES = KEYS.or_values(test_value_counts.DOMAIN, FALSE)
LADDERS = pytest.mark.parametrize("ladder", [KEYS, VALUES], ids=["keys", "values"])
KINDS = pytest.mark.parametrize("individual", [True, False], ids=["individual", "fixed"])
MANY, FEW = ("Yes",) * 6, ("Yes", "No")


@lru_cache
def law(step, held):
    """What a count releases; noisy counts well above its threshold are one outcome."""
    if isinstance(step, ValueCounts):
        found = test_value_counts.released(step, held)
    else:
        found = test_agreement.released(step, [key for (key,) in held])
        # As a product: what is left of 1 is rounded away where nearly all is released.
        counts = Counter(held).values()
        found[None] = math.prod(step.noise.tail(count - step.threshold + 1) for count in counts)
    chances: dict = defaultdict(float)
    for one, chance in found.items():
        chances[one and (one[0], min(one[1], step.threshold + 1))] += chance
    return tuple(chances.items())


@pytest.fixture(autouse=True)
def enumerated(monkeypatch):
    """Every outcome of a count is a choice."""

    def draw(self, held, randomness):
        own = law(self, tuple(sorted(map(tuple, held))))
        found, _ = own[randomness.choose([(at, chance) for at, (_, chance) in enumerate(own)])]
        return [] if found is None else [Agreed(*found, within=1)]

    monkeypatch.setattr(ValueCounts, "draw", draw)
    monkeypatch.setattr(Agreement, "draw", draw)
    enumerate_top_counts(monkeypatch, [])


def views(ladder, words, unit=None, *, individual=True, refund=None, likely=1e-24):
    """Distribution of what is released and told, and of what unit ``u`` has paid in the end."""
    units = [*(f"other {at}" for at in range(len(words))), *([] if unit is None else ["u"])]
    held = [(word,) for word in (*words, unit) if word is not None]
    votes = [SentenceVote(None, own, frozenset(), frozenset()) for own in held]
    deltas = set()

    def run(choose):
        spent = dict.fromkeys([*units, "u", "delta"], 0.0)
        book = Book(2 * RHO, DELTA, units if individual else None, spent)
        account = Account(2 * RHO, len(units) if individual else None, book)
        places = range(len(units)) if individual else ()
        spend = privacy_filter(account, places, 0.0)
        whole = WholeAnswer(
            ladder,
            spend,
            Coins(choose),
            spell=list,
            show=str,
            lead="",
            keys=1,
            sentences=1,
            most=8,
            only_agreement=True,
        )
        found = whole._count(votes)
        if refund is not None and not found:
            spent.update({unit: paid - refund for unit, paid in spent.items() if paid})
        account.close()
        deltas.add(spent["delta"])
        # The price of an answer tells which counts there were.
        return (*((one.key, one.count) for one in found), spend.rho), round(spent["u"], 12)

    return distribution(run, likely), max(deltas)


def worst(ladder, words, unit, **given):
    """By how much the charge falls short, and the chance of the unit's own words less delta."""
    having, delta = views(ladder, words, unit, **given)
    without, _ = views(ladder, words, **given)
    own = set() if unit in words or ladder is VALUES else {unit}
    kept = {
        seen: chance
        for seen, chance in having.items()
        if not any(isinstance(one, tuple) and one[0] in own for one in seen[0])
    }
    return deficit(kept, without), sum(having.values()) - sum(kept.values()) - delta


@pytest.mark.one_in(5)
@LADDERS
@KINDS
@pytest.mark.parametrize("words", [MANY, FEW], ids=["many", "few"])
@pytest.mark.parametrize("unit", ["Yes", "No", "Maybe"])
def test_a_unit_pays_for_all_that_an_end_shows(ladder, words, unit, individual):
    short, beyond = worst(ladder, words, unit, individual=individual)
    assert short <= 1e-9
    assert beyond <= 1e-12


@LADDERS
def test_all_ends_are_reached(ladder):
    """Released by a cheaper step, by the last one, ended by the top count, and not released."""
    found, _ = views(ladder, MANY)
    prices = {view[-1] for view, _ in found if len(view) > 1}
    assert len(prices) > 2
    nothing = {view[-1] for view, _ in found if len(view) == 1}
    assert min(nothing) < RHO / 3 < RHO * 0.99 < max(nothing)


@LADDERS
@pytest.mark.parametrize("words", [("Yes",) * 7, ("Yes",)], ids=["many", "one"])
def test_the_plan_tells_what_is_paid_on_average(ladder, words):
    found, _ = views(ladder, words)
    chance, rho = ladder.outcome(len(words))
    paid = math.fsum(part * view[-1] for (view, _), part in found.items())
    assert rho == pytest.approx(paid, rel=1e-3 if ladder is KEYS else 0.15)
    released = math.fsum(part for (view, _), part in found.items() if len(view) > 1)
    # Of public values another may come out, falsely.
    assert -1e-8 < released - chance < (1e-6 if ladder is KEYS else FALSE)


def test_an_answer_that_nobody_gives_costs_a_third_at_most():
    for rho in (1.16, 0.34):
        for keys in (None, 1, 2, 3):
            ladder = Ladder.behind_top_count(rho, 1e-9, DIRECT, ADD, keys)
            assert ladder.outcome(1)[1] < rho / 3
            # And one that most give two thirds, but for a list: all of its items are asked for.
            most = ladder.outcome(3 * ladder.units)[1]
            assert (most < 2 * rho / 3) == (keys != 3)
            assert (ladder.after(10 * ladder.units) == ladder.steps) == (keys == 3)


# Planted faults.


@LADDERS
@KINDS
def test_a_failure_that_is_refunded_too_much_is_seen(ladder, individual):
    given = {"individual": individual, "refund": 0.9 * ladder.top.rho}
    assert worst(ladder, ("Yes", "Yes", "No"), "Yes", **given)[0] > 0.001


def test_counts_that_are_louder_than_their_price_are_seen(monkeypatch):
    (last,) = KEYS.steps
    noise = type(last.noise)(last.noise.sigma / 2)
    loud = replace(KEYS, steps=(replace(last, noise=noise),), least=-99)
    assert worst(loud, ("Yes", "Yes", "No"), "Yes")[0] > 0.01
    loud = replace(KEYS, top=replace(KEYS.top, noise=type(noise)(KEYS.top.noise.sigma / 2)))
    monkeypatch.setattr(TopCount, "rho", KEYS.top.rho)
    assert worst(loud, ("Yes", "Yes", "No"), "Yes")[0] > 0.01
