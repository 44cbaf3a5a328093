"""What a ladder costs, and how many documents must agree."""

import math
from pathlib import Path

import pytest
import torch

from dpicl_rag.accounting.budget import SHARES, Booking
from dpicl_rag.accounting.conversion import rho_to_delta, rho_to_epsilon
from dpicl_rag.accounting.stability import DIRECT, RANDOM_GROUPS, Adjacency
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.answering.ladder import Ladder
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.privacy_filters import FixedFilter, IndividualFilter
from dpicl_rag.mechanisms.value_counts import ValueCounts

ROOT = Path(__file__).parents[3]

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


@pytest.mark.parametrize("stability", [DIRECT, RANDOM_GROUPS])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("rho", [0.001, 0.02, 0.5, 5.0])
def test_the_steps_add_up_to_the_price(stability, adjacency, rho):
    steps = Ladder.within(rho, 1e-6, 32.0, stability, adjacency).steps
    assert rho * (1 - 1e-6) < sum(step.rho for step in steps) <= rho
    assert sum(step.delta for step in steps) <= 1e-6
    thresholds = [step.threshold for step in steps]
    assert thresholds == sorted(thresholds, reverse=True)
    for step in steps:
        assert stability.votes_l2(adjacency) ** 2 * step.noise.rho <= step.rho * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "units"), [(8, 6), (4, 10), (2, 16), (1, 28)])
def test_so_many_documents_are_enough_nine_times_in_ten(epsilon, units):
    config = PrivacyConfig.create(epsilon=epsilon, agreement="auto")
    # Of a search whose noise is not set.
    search = SHARES.counting(SHARES.search_beside_agreement * config.rho(booked=False))
    plan = answer_plan(config, DIRECT, search)
    assert plan.ladder.units <= units
    assert search + plan.agreement_rho + plan.support_rho <= plan.rho
    assert sum(step.delta for step in plan.ladder.steps) <= config.threshold_delta(booked=False)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("stability", [DIRECT, RANDOM_GROUPS])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("rho", "keys"), [(0.001, None), (0.02, None), (0.02, 2), (0.5, None), (0.5, 1), (5.0, 2)]
)
def test_a_top_count_leaves_steps_of_the_same_price(stability, adjacency, rho, keys):
    ladder = Ladder.behind_top_count(rho, 1e-9, stability, adjacency, keys)
    assert ladder.top.rho <= 0.2 * rho
    assert rho * (1 - 1e-6) < ladder.rho <= rho
    lengths, first = set(), []
    for count in range(-50, 700, 30):
        steps = ladder.after(count)
        if not steps:
            continue
        # The whole is paid for, whatever the count was.
        assert ladder.top.rho + sum(step.rho for step in steps) <= rho
        assert sum(step.delta for step in steps) <= 1e-9
        lengths.add(len(steps))
        first.append(steps[0].rho)
    assert max(lengths) > 1
    # The more agree, the more noise the first step has.
    assert first == sorted(first, reverse=True)


def test_where_too_few_agree_nothing_else_is_counted():
    plan = answer_plan(PrivacyConfig.create(epsilon=2, agreement="auto"), DIRECT, 0.0, booked=True)
    ladder = plan.ladder
    left = [bool(ladder.after(count)) for count in range(-20, 64)]
    assert left == sorted(left)
    least = left.index(True) - 20
    # Who agree by enough are nearly always let through, and a handful seldom.
    assert ladder.top.noise.tail(least - ladder.units) > 0.91
    assert ladder.top.noise.tail(least - 2) < 0.1
    (last,) = ladder.steps
    reached = ladder.top.noise.tail(least - ladder.units)
    assert reached * last.noise.tail(last.threshold - ladder.units) >= 0.9


@pytest.mark.parametrize(("epsilon", "units"), [(8, 8), (4, 12), (2, 21), (1, 37)])
def test_so_many_are_enough_under_a_ledger(epsilon, units):
    config = PrivacyConfig.create(epsilon=epsilon, agreement="only")
    search = SHARES.counting(SHARES.search_before_counts * config.rho(booked=True))
    plan = answer_plan(config, DIRECT, search, 0, booked=True)
    assert plan.ladder.units <= units
    assert search + plan.agreement_rho + plan.support_rho <= plan.rho
    # One fewer is not enough: steps that a top count begins too high are counted, too.
    fewer, top, released = plan.ladder.units - 1, plan.ladder.top.noise, 0.0
    reach = range(-round(5 * top.sigma), round(5 * top.sigma))
    tails = {drawn: top.tail(drawn) for drawn in (*reach, reach.stop)}
    for drawn in reach:
        steps = plan.ladder.after(fewer + drawn)
        missed = math.prod(1 - step.noise.tail(step.threshold - fewer) for step in steps)
        released += (tails[drawn] - tails[drawn + 1]) * (1 - missed)
    assert released < 0.9


ALONE, BOOKED = (3, 5, 9, 16), (7, 11, 19, 34)
"""Documents that are enough where keys of a name are counted."""


def test_the_guides_say_how_many_are_enough():
    alone, booked = (", ".join(map(str, units)) for units in (ALONE, BOOKED))
    readme, guide = (
        (ROOT / name).read_text("utf-8") for name in ("README.md", "docs/questions.md")
    )
    assert f"{booked} and {alone} (" in readme
    assert f"| a name, a place, an amount | {alone} | {booked} |" in guide


@pytest.mark.parametrize(("epsilon", "needed"), list(zip((8, 4, 2, 1), ALONE, strict=True)))
def test_so_many_are_enough_for_an_answer_alone(epsilon, needed):
    """Its keys are selected: a third to a half fewer than with Gaussian noise."""
    config = PrivacyConfig.create(epsilon=epsilon, agreement="only")
    search = SHARES.counting(SHARES.search_before_counts * config.rho(booked=False))
    for keys in (1, 2, 3):
        plan = answer_plan(config, DIRECT, search, 0, keys=keys)
        assert plan.units_to_agree == needed
        (step,) = plan.ladder.steps
        assert step.chance(needed) >= 0.9 > step.chance(needed - 1)
        assert needed < plan.ladder.instead_of
        assert (step.keys, step.parts) == (keys, {1: 1, 2: 2, 3: 6}[keys])
        assert step.epsilon < epsilon
        assert step.delta + rho_to_delta(search, epsilon - step.epsilon) <= config.delta
        assert f"epsilon {step.epsilon:.4g}; Gaussian noise" in str(plan)


@pytest.mark.parametrize(("keys", "needed"), [(2, (6, 10, 17, 31)), (3, (9, 15, 26, 46))])
def test_so_many_are_enough_where_all_share_their_votes_alike(keys, needed):
    """docs/questions.md: those who all name the same two reasons, or three items."""
    for epsilon, units in zip((8.0, 4.0, 2.0, 1.0), needed, strict=True):
        config = PrivacyConfig.create(epsilon=epsilon, agreement="only")
        search = SHARES.counting(SHARES.search_before_counts * config.rho(booked=False))
        (step,) = answer_plan(config, DIRECT, search, 0, keys=keys).ladder.steps
        part = step.parts // keys
        chances = [step.noise.tail(step.threshold - part * n) for n in (units, units - 1)]
        assert chances[0] >= 0.9 > chances[1]


@pytest.mark.parametrize(("epsilon", "units"), [(8, 3), (4, 4), (2, 8), (1, 13)])
def test_without_a_search_all_of_epsilon_and_delta_selects(epsilon, units):
    config = PrivacyConfig.create(epsilon=epsilon, agreement="only")
    plan = answer_plan(config, DIRECT, 0.0, 0, keys=1)
    assert plan.units_to_agree == units
    assert plan.ladder.steps[0].epsilon == epsilon
    assert plan.threshold_delta <= config.delta


@pytest.mark.parametrize(
    ("settings", "stability", "given"),
    [
        ({}, DIRECT, {"booked": True}),
        ({"sentences": 2}, DIRECT, {}),
        ({"agreement": "auto"}, DIRECT, {}),
        ({"adjacency": "replace_one"}, RANDOM_GROUPS, {}),
        ({}, DIRECT, {"keys": None}),
    ],
)
def test_what_is_summed_up_or_goes_on_is_counted_with_gaussian_noise(settings, stability, given):
    config = PrivacyConfig.create(**{"epsilon": 4.0, "agreement": "only", **settings})
    plan = answer_plan(config, stability, 0.001, 0, **{"keys": 1, **given})
    assert plan.ladder.instead_of is None
    assert {type(step.noise) for step in plan.ladder.steps} == {DiscreteGaussian}


def test_more_is_reserved_than_a_filter_keeps_back():
    """The plan's rho pays for search, support and selection, of a filter of either kind."""
    for settings in ({}, {"adjacency": "replace_one"}):
        config = PrivacyConfig.create(epsilon=4.0, agreement="only", **settings)
        plan = answer_plan(config, DIRECT, 0.01, 1, keys=1)
        assert plan.ladder.instead_of is not None
        (step,) = plan.ladder.steps
        # What is released before the selection, of which the rest of epsilon and delta is.
        before = plan.search_rho + plan.support_rho
        assert before > plan.search_rho
        assert step.delta + rho_to_delta(before, 4.0 - step.epsilon) <= config.delta
        limits = torch.tensor([plan.rho - plan.search_rho], dtype=torch.float64)
        own = IndividualFilter(limits, bound=plan.rho, worst=0.0, aside=plan.support_rho)
        voting = torch.tensor([True])
        assert own.pay_votes(plan.agreement_rho, voting, 0.0).tolist() == [True]
        fixed = FixedFilter(plan.rho, 0.0, search_rho=plan.search_rho, aside=plan.support_rho)
        fixed.pay_votes(plan.agreement_rho, voting, 0.0)
        fixed.pay_aside(plan.support_rho, voting)
        assert fixed.rho == pytest.approx(plan.rho)


def test_where_most_agree_the_first_step_is_cheap():
    plan = answer_plan(PrivacyConfig.create(epsilon=8, agreement="only"), DIRECT, 0.0)
    first = plan.ladder.steps[0]
    assert first.rho <= 0.015
    assert first.noise.tail(first.threshold - 48) > 0.9


def test_without_agreement_there_is_none_and_epsilon_is_converted_at_the_whole_delta():
    off, on = (PrivacyConfig.create(agreement=name) for name in ("off", "auto"))
    assert answer_plan(off, DIRECT, 0.0).ladder is None
    assert off.rho(booked=True) > on.rho(booked=True) > on.rho(booked=False)
    assert off.threshold_delta(booked=True) == off.threshold_delta(booked=False) == 0.0


OPEN, DAY, HOUR, WHEN = "Is it open?", "On which day?", "When does it open?", "Until when?"


@pytest.mark.one_in(9)
@pytest.mark.parametrize(
    ("question", "booked", "units"),
    [
        (OPEN, False, (2, 3, 5, 9)),
        (DAY, False, (2, 3, 5, 10)),
        (HOUR, False, (2, 3, 7, 14)),
        (WHEN, False, (2, 4, 8, 15)),
        (OPEN, True, (4, 7, 12, 21)),
        (DAY, True, (4, 7, 12, 23)),
        (HOUR, True, (5, 8, 14, 27)),
        (WHEN, True, (5, 8, 15, 28)),
    ],
)
def test_so_few_are_enough_where_all_answers_are_listed(question, booked, units):
    found = []
    for epsilon in (8, 4, 2, 1):
        config = PrivacyConfig.create(epsilon=epsilon, agreement="only")
        search = SHARES.counting(SHARES.search_before_counts * config.rho(booked=booked))
        plan = answer_plan(
            config, DIRECT, search, 0, booked=booked, keys=1, domain=answer_keys(question).domain
        )
        counts, enough = plan.ladder.counts, plan.ladder.units
        assert all(isinstance(step, ValueCounts) for step in counts)
        assert search + plan.agreement_rho <= plan.rho
        assert plan.threshold_delta == 0.0
        # All counts together give at most one false answer in a hundred.
        assert math.fsum(step.false for step in counts) <= 0.01 * (1 + 1e-12)
        found.append(enough)
        assert plan.ladder.outcome(enough)[0] >= 0.9 > plan.ladder.outcome(enough - 1)[0]
        # Under a ledger a cheap count comes first, and a top count decides whether a dear one does.
        assert booked is (plan.ladder.top is not None) is (len(counts) == 2)
    assert tuple(found) == units


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("keys", "units"), [(1, BOOKED), (2, (8, 15, 26, 47)), (3, (11, 17, 30, 56))]
)
def test_so_many_names_are_enough_under_a_ledger(keys, units):
    """And where no two units say the same, it costs a third of the bound at most."""
    for epsilon, most in zip((8, 4, 2, 1), units, strict=True):
        config = PrivacyConfig.create(epsilon=epsilon, agreement="only")
        search = SHARES.counting(SHARES.search_before_counts * config.rho(booked=True))
        plan = answer_plan(config, DIRECT, search, 0, booked=True, keys=keys)
        assert plan.units_to_agree <= most
        none, enough, twice = plan.outcomes
        assert (none.units, enough.units, twice.units) == (1, most, 2 * most)
        assert none.rho <= plan.rho / 3
        assert enough.chance >= 0.9
        # All items of a list are asked for: no cheap count tells them, however many agree.
        assert (twice.rho < enough.rho) == (keys < 3)
        assert max(twice.rho, enough.rho) <= plan.rho
        assert f"rho {none.rho:.4g} where no two documents say the same" in str(plan)


def test_without_a_ledger_epsilon_is_what_the_search_leaves():
    config = PrivacyConfig.create(epsilon=2, agreement="only")
    (step,) = answer_plan(
        config, DIRECT, 0.005, 0, keys=1, domain=answer_keys(OPEN).domain
    ).ladder.steps
    assert rho_to_epsilon(0.005, config.delta) + step.epsilon <= 2 + 1e-12
    (step,) = answer_plan(
        config, DIRECT, 0.0, 0, keys=1, domain=answer_keys(OPEN).domain
    ).ladder.steps
    assert step.epsilon == 2.0
    # Where tokens may follow, or more sentences, the count is one of several.
    for more in ({"agreement": "auto"}, {"sentences": 2}):
        several = PrivacyConfig.create(**{"epsilon": 2, "agreement": "only", **more})
        plan = answer_plan(several, DIRECT, 0.005, 0, keys=1, domain=answer_keys(OPEN).domain)
        assert all(step.epsilon is None for step in plan.ladder.steps)
        assert plan.rho == several.rho(booked=False)


def test_a_list_that_needs_more_than_rare_keys_is_not_taken():
    config = PrivacyConfig.create(epsilon=2, agreement="only", false_answers=1e-30)
    for booked in (False, True):
        plan = answer_plan(
            config, DIRECT, 0.005, 0, booked=booked, keys=1, domain=answer_keys(WHEN).domain
        )
        assert not isinstance(plan.ladder.steps[-1], ValueCounts)
        assert plan.threshold_delta > 0


@pytest.mark.parametrize("keys", [None, 1, 3])
def test_what_is_left_of_a_pool_has_a_plan_however_little(keys):
    needed = []
    for part in (1e-8, 1e-14, 1e-20):
        config = PrivacyConfig.create(epsilon=4.0, agreement="only")
        booked = config.under(Booking(threshold_delta=part))
        plan = answer_plan(booked, DIRECT, 0.01, 0, booked=True, keys=keys)
        assert plan.threshold_delta <= part * (1 + 1e-9)
        needed.append(plan.units_to_agree)
    assert needed == sorted(needed)
    assert needed[-1] < 2 * needed[0]
