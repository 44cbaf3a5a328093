"""Constants of AdaDPSyn that are given: the price that follows from them, and that it is enough."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from dpicl_rag.accounting import Adjacency, Gaussian, PoissonSubsampled
from dpicl_rag.accounting.conversion import gaussian_epsilon
from dpicl_rag.auditing.neighbours import exact_epsilon
from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms.points import GRID, LARGEST, clipped_sum
from dpicl_rag.synthesis.examples import LabelledDocument, synthesise_examples
from dpicl_rag.synthesis.examples_plan import examples_plan
from dpicl_rag.synthesis.noisy_sums import Adaptive, AdaptiveConstants, Noises
from dpicl_research.published_settings import ADAPTIVE, published_constants
from dpicl_research.radius_search import radius_chances
from tests.support.speaking_model import SpeakingModel

DELTA = 1e-2
EXPERTS = 4
GIVEN = AdaptiveConstants(radius_noise=3.0, mean_noise=1.5, count_noise=2.0)


def plan_of(constants=GIVEN, **settings):
    given = {
        "epsilon": None,
        "delta": DELTA,
        "texts_per_label": 1,
        "max_tokens": 3,
        "experts": EXPERTS,
        "per_expert": 1,
        "rate": 0.5,
        "candidates": 2,
        "adjacency": Adjacency.ADD_OR_REMOVE_ONE,
        "labels_per_unit": 1,
        "adaptive": constants,
    } | settings
    return examples_plan(given.pop("method", "adaptive"), given.pop("labels", 2), **given)


# The price.


def test_the_price_follows_from_the_constants():
    plan = plan_of()
    multiplier = 1 / math.sqrt(6 / 3.0**2 + 2 / 1.5**2 + 1 / 2.0**2)
    assert isinstance(plan.event, PoissonSubsampled)
    assert plan.event.event.noise_multiplier == pytest.approx(multiplier, rel=1e-8)
    assert plan.event.event.noise_multiplier < multiplier  # rounded to the safe side
    assert plan.epsilon == plan.true_epsilon > 0
    noises = plan.mechanism.noises
    assert (noises.radius, noises.mean, noises.count) == (3.0, 1.5, 2.0)
    # A larger budget changes neither noise nor price.
    assert plan_of(epsilon=50.0).epsilon == plan.epsilon


@pytest.mark.parametrize(
    ("changed", "squares"),
    [
        ({"rounds": 2}, 6 / 9 + 3 / 2.25 + 2 / 4),
        ({"precision": 0.05}, 8 / 9 + 2 / 2.25 + 1 / 4),
        ({"precision": 0.5}, 2 / 9 + 2 / 2.25 + 1 / 4),
        ({"slack": 0.1, "captured": 0.5, "enough": 0.9}, 6 / 9 + 2 / 2.25 + 1 / 4),
    ],
)
def test_each_release_is_paid_for(changed, squares):
    constants = AdaptiveConstants(3.0, 1.5, 2.0, **changed)
    plan = plan_of(constants, rate=1.0)
    assert isinstance(plan.event, Gaussian)
    assert plan.event.noise_multiplier == pytest.approx(squares**-0.5, rel=1e-8)
    assert plan.epsilon == pytest.approx(gaussian_epsilon(math.sqrt(3 * squares), DELTA), rel=1e-6)
    assert plan.rho == pytest.approx(3 * squares / 2, rel=1e-6)


def test_a_radius_that_is_not_searched_for_costs_nothing():
    constants = AdaptiveConstants(mean_noise=1.5, count_noise=2.0)
    plan = plan_of(constants, radius=0.2, rate=1.0)
    assert plan.event.noise_multiplier == pytest.approx((2 / 2.25 + 1 / 4) ** -0.5, rel=1e-8)
    assert plan.mechanism.radius(torch.zeros(0, 2, dtype=torch.int64), None) == 0.2


@pytest.mark.parametrize("run", ADAPTIVE[::5], ids=lambda run: f"{run.task} {run.claimed:g}")
def test_published_settings_run_under_their_true_price(run):
    """The papers' neighbours keep their label, as those of one label do here."""
    plan = plan_of(
        published_constants(run.task, run.claimed),
        labels=1,
        adjacency=Adjacency.REPLACE_ONE,
        rate=run.sample / run.pool,
        max_tokens=run.tokens,
        delta=run.delta,
    )
    assert plan.epsilon == pytest.approx(run.epsilon(), rel=2e-3, abs=1e-3)


def test_what_is_not_given_is_calibrated():
    usual = plan_of(None, epsilon=2.0)
    for constants in (AdaptiveConstants(radius_noise=30.0), AdaptiveConstants(count_noise=20.0)):
        plan = plan_of(constants, epsilon=2.0)
        noises, other = plan.mechanism.noises, usual.mechanism.noises
        assert noises.multiplier == pytest.approx(other.multiplier)
        assert noises.mean < other.mean  # what one stage saves is the others'
        assert plan.event == usual.event
        assert plan.epsilon == 2.0
    assert plan_of(AdaptiveConstants(), epsilon=2.0).mechanism == usual.mechanism
    # Every choice of what is given comes to the budget.
    for names in itertools.combinations(("radius_noise", "mean_noise", "count_noise"), 2):
        constants = AdaptiveConstants(**dict.fromkeys(names, 30.0))
        assert constants.noises(1.0).multiplier == pytest.approx(1.0)
    fixed = AdaptiveConstants(count_noise=30.0).noises(1.0, searched=False)
    assert fixed.multiplier == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0.5}, "give a larger epsilon, more noise, a smaller rate or fewer tokens"),
        ({"constants": AdaptiveConstants(radius_noise=0.1), "epsilon": 1.0}, "leaves nothing"),
        ({"constants": AdaptiveConstants(3.0, 1.5)}, "give epsilon"),
        ({"constants": None}, "give epsilon"),
        ({"method": "difference", "epsilon": 1.0}, "no constants"),
        ({"method": "few-shot", "constants": None, "epsilon": 1.0, "radius": 0.5}, "no radius"),
        ({"radius": 0.5}, "leave its noise out"),
        ({"constants": None, "epsilon": 1.0, "radius": 1.5}, "sqrt"),
        ({"constants": None, "epsilon": 1.0, "radius": 0.0}, "sqrt"),
        ({"rate": 1e-4}, "smaller delta"),
    ],
)
def test_what_is_refused_is_one_line_that_names_the_remedy(settings, words):
    with pytest.raises(ConfigurationError, match=words) as caught:
        plan_of(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "constants",
    [
        {"radius_noise": 0.0},
        {"mean_noise": -1.0},
        {"count_noise": math.inf},
        {"rounds": 0},
        {"precision": 0.0},
        {"precision": math.inf},
        {"slack": math.nan},
        {"captured": 1.5},
        {"enough": 0.0},
    ],
)
def test_constants_outside_their_range(constants):
    with pytest.raises(ConfigurationError):
        AdaptiveConstants(**constants)


def test_the_price_that_is_said_is_enough():
    with pytest.raises(ConfigurationError) as caught:
        plan_of(epsilon=0.5)
    said = float(str(caught.value).split("cost epsilon ")[1].split(",")[0])
    assert plan_of(epsilon=said).epsilon <= said


# What is charged.

PRIVATE = [LabelledDocument(f"turn-{at % 3}", "x", f"unit {at}") for at in range(12)]


def write(**settings):
    given = {"delta": DELTA, "max_tokens": 3, "experts": EXPERTS, "method": "adaptive"} | settings
    return synthesise_examples(PRIVATE, ["x"], model=SpeakingModel(5), **given)


def test_texts_say_what_the_constants_cost(tmp_path):
    found = write(rate=0.5, adaptive=GIVEN, folder=tmp_path / "run")
    assert found.epsilon == plan_of(labels=1).true_epsilon
    assert found.settings["adaptive"]["mean_noise"] == 1.5
    assert [record.tokens for record in found.records] == [3]
    with pytest.raises(ConfigurationError, match="another plan"):
        write(rate=0.5, adaptive=AdaptiveConstants(3.0, 1.5, 2.5), folder=tmp_path / "run")
    assert "adaptive" not in write(rate=0.5, epsilon=2.0).settings


def test_a_ledger_pays_what_the_constants_cost(tmp_path):
    """All units are read, so that there is a charge in zCDP."""
    constants = AdaptiveConstants(radius_noise=30.0, mean_noise=15.0, count_noise=20.0)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="mail", epsilon=2.0, delta=DELTA)
        found = write(rate=1.0, adaptive=constants, ledger=ledger, corpus="mail")
        (status,) = ledger.status()
        expected = 3 / (2 * constants.noises().multiplier ** 2)
        assert status.spent == pytest.approx(found.rho, abs=1e-12)
        assert expected <= found.rho <= expected * (1 + 1e-6)
        with pytest.raises(BudgetExceededError):
            write(rate=1.0, adaptive=GIVEN, ledger=ledger, corpus="mail")
        with pytest.raises(ConfigurationError, match="than a ledger keeps"):
            write(rate=1.0, adaptive=constants, epsilon=0.4, ledger=ledger, corpus="mail")


# Exact tests. Radius and count are releases of their own for the analysis, so their distributions
# on neighbours must stay within what all releases of a token are charged.

SPEECH = (0.0, 0.1, 1.0)


def points_of(*shares):
    table = [[share, 1 - share] for share in shares]
    return (torch.tensor(table, dtype=torch.float64).reshape(-1, 2) * GRID).floor().long()


def neighbours():
    for size in (1, 2, 3):
        for others in itertools.combinations_with_replacement(SPEECH, size):
            for share in SPEECH:
                yield points_of(*others), points_of(*others, share)


def logs(chances):
    return torch.tensor(chances, dtype=torch.float64).log()


def worst_radius(one: Adaptive):
    def chances(own):
        noises = one.noises
        return logs([p for _, p in radius_chances(own, one.captured, noises.radius, noises.halved)])

    return max(exact_epsilon(chances(a), chances(b), DELTA) for a, b in neighbours())


def worst_count(one: Adaptive):
    def chances(own):
        inside = one.chance(own, points_of(0.0)[0], 0.3)
        return logs([inside, 1 - inside])

    return max(exact_epsilon(chances(a), chances(b), DELTA) for a, b in neighbours())


def charged(noises, **left_out):
    """Epsilon of one token; a stage that is left out has endless noise in the price."""
    parts = {"radius": noises.radius, "mean": noises.mean, "count": noises.count} | left_out
    halved = parts.pop("halved", noises.halved)
    whole = Noises(**parts, rounds=noises.rounds, halved=halved)
    return gaussian_epsilon(1 / whole.multiplier, DELTA)


def one_of(constants, radius=None):
    return plan_of(constants, rate=1.0, max_tokens=1, radius=radius).mechanism


def test_the_radius_costs_what_is_charged_and_its_price_must_not_be_left_out():
    one = one_of(AdaptiveConstants(radius_noise=1.0, mean_noise=20.0, count_noise=20.0))
    found = worst_radius(one)
    assert 0.3 * charged(one.noises) < found <= charged(one.noises)
    assert found > charged(one.noises, radius=math.inf)  # the plant


def test_a_finer_radius_costs_more_values():
    fine = AdaptiveConstants(radius_noise=2.0, mean_noise=40.0, count_noise=40.0, precision=0.02)
    one = one_of(fine)
    assert one.noises.halved == 6
    found = worst_radius(one)
    assert found <= charged(one.noises)
    assert found > charged(one.noises, halved=1)  # the plant: the price of a coarse search


def test_a_count_costs_what_is_charged_and_its_price_must_not_be_left_out():
    one = one_of(AdaptiveConstants(radius_noise=40.0, mean_noise=20.0, count_noise=0.5))
    found = worst_count(one)
    assert 0.3 * charged(one.noises) < found <= charged(one.noises)
    assert found > charged(one.noises, count=math.inf)  # the plant


@pytest.mark.parametrize("radius", [None, 0.1])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_mean_costs_what_is_charged(radius, adjacency):
    """How far the worst neighbour moves a mean, over its noise."""
    constants = AdaptiveConstants(None if radius else 40.0, mean_noise=1.0, count_noise=40.0)
    one = plan_of(constants, rate=1.0, radius=radius, adjacency=adjacency, labels=1).mechanism
    changed = adjacency is Adjacency.REPLACE_ONE
    centre = points_of(0.5)[0]
    for length in (LARGEST, radius or 0.2):
        alone = [clipped_sum(points_of(s), centre, length).double() / GRID for s in SPEECH]
        pairs = itertools.combinations(alone, 2) if changed else ((a, 0 * a) for a in alone)
        moved = max(float((a - b).norm()) for a, b in pairs)
        assert one.sigma(length) / moved == pytest.approx(one.noises.mean, rel=1e-5)
        assert one.sigma(length) / moved >= one.noises.mean


def test_noise_that_is_given_is_the_noise_that_is_used():
    plan = plan_of()
    assert isinstance(plan.mechanism, Adaptive)
    used = plan.mechanism.noises.multiplier
    assert plan.event.event.noise_multiplier <= used
    assert plan.mechanism.rho == pytest.approx(1 / (2 * used**2), rel=1e-6)
