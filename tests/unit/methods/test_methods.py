"""The interface that all methods share: layouts, calibration, draws, errors."""

from __future__ import annotations

import json
import math

import pytest
import torch
from dp_accounting.pld import privacy_loss_distribution
from scipy import stats

from dpicl_rag.accounting import Adjacency, Budget, SubsampledSum, epsilon_for
from dpicl_rag.accounting.conversion import gaussian_delta, gaussian_epsilon
from dpicl_rag.accounting.subsampling import mixture_delta
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.privacy_filters import FixedFilter
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.methods import (
    METHODS,
    ContentFree,
    Groups,
    OneEach,
    OnePrompt,
    Subsampled,
    ZeroShot,
    make,
)
from dpicl_research.context_rows import name_of

EPSILON, DELTA = 4.0, 1e-5
BUDGET = Budget(EPSILON, DELTA)
MANY = Budget(EPSILON, DELTA, queries=10_000)
PRIVATE = [name for name in METHODS if make(name).private]
EACH = pytest.mark.parametrize("name", METHODS)
EACH_PRIVATE = pytest.mark.parametrize("name", PRIVATE)


def rows_in(layout) -> int:
    match layout:
        case ContentFree(of=of):
            return rows_in(of)
        case Groups(count=count) | Subsampled(contexts=count):
            return count
        case OneEach():
            return 8
        case _:
            return 1


def views_of(method, labels: int = 4):
    noise = torch.Generator().manual_seed(2)
    return {
        layout: torch.log_softmax(
            torch.randn(rows_in(layout), labels, generator=noise, dtype=torch.float64), -1
        )
        for layout in method.layouts(8)
    }


@pytest.mark.one_in(6)
@EACH
def test_a_distribution_is_one_and_draws_follow_it(name):
    method = make(name)
    views, calibrated = views_of(method), method.calibrate(BUDGET)
    p = method.distribution(views, calibrated)
    assert p.dtype == torch.float64
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-12)
    with pytest.warns(NotPrivateWarning):
        randomness = SeededRandomness(7)
    runs = 800
    counts = torch.zeros(4)
    spend = FixedFilter(1.0, 0.5 / runs)
    for _ in range(runs):
        counts[calibrated.mechanism.draw(method.step(views), spend, randomness)] += 1
    assert spend.rho == pytest.approx(0.5)
    assert counts[p == 0].sum() == 0
    kept = p > 0
    if kept.sum() > 1:
        assert stats.chisquare(counts[kept].numpy(), runs * p[kept].numpy()).pvalue > 1e-4


@EACH
def test_methods_are_values_that_can_be_written_down(name):
    method = make(name)
    assert method == make(name)
    assert method.name == name
    assert hash(method) == hash(make(name))
    json.dumps(dict(method.parameters))
    assert make(name, **method.parameters) == method
    assert any(year in type(method).__doc__ for year in ("2007", "2020", "2024", "2026"))
    assert method.layouts(8) == method.layouts(8)


@EACH_PRIVATE
@pytest.mark.parametrize("queries", [1, 50])
def test_the_noise_spends_the_budget_and_no_more(name, queries):
    if name == "sampling" and queries > 1:
        pytest.skip("the slow test below composes it")
    for adjacency in Adjacency:
        if name == "sampling" and adjacency is Adjacency.REPLACE_ONE:
            continue
        budget = Budget(EPSILON, DELTA, adjacency, queries=queries)
        calibrated = make(name).calibrate(budget)
        spent = epsilon_for(calibrated.event, budget)
        assert 0.99 * EPSILON < spent <= EPSILON * (1 + 1e-9)


@EACH_PRIVATE
def test_more_queries_need_more_noise(name):
    if name == "sampling":
        pytest.skip("the slow test below composes it")
    one, many = (make(name).calibrate(budget).parameter for budget in (BUDGET, MANY))
    # The noise of many grows like the square root of their number, or a little slower.
    assert 20 < (many / one if name == "votes-gaussian" else one / many) < 500


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "parameters"), [("sampling", {}), ("votes-gaussian", {"rate": 0.01})]
)
def test_ten_thousand_sampled_queries(name, parameters):
    calibrated = make(name, **parameters).calibrate(MANY)
    spent = epsilon_for(calibrated.event, calibrated.budget)
    assert 0.99 * EPSILON < spent <= EPSILON


def test_no_privacy_costs_nothing_and_says_so():
    for name in ("zero-shot", "k-shot", "soft", "hard"):
        calibrated = make(name).calibrate(BUDGET)
        assert (calibrated.event, calibrated.rho, make(name).private) == (None, None, False)


def test_ties_without_noise_are_even():
    method = make("hard")
    rows = torch.log_softmax(5 * torch.eye(3, dtype=torch.float64)[[0, 0, 2, 2, 1]], -1)
    p = method.distribution({OneEach(): rows}, method.calibrate(Budget(1.0, DELTA)))
    assert p.tolist() == [0.5, 0.0, 0.5]


def test_soft_multiplies_and_hard_counts():
    sure, doubtful = [0.98, 0.01, 0.01], [0.3, 0.4, 0.3]
    rows = torch.log(torch.tensor([sure, doubtful, doubtful], dtype=torch.float64))
    best = {
        name: int(
            make(name)
            .distribution({OneEach(): rows}, make(name).calibrate(Budget(1.0, DELTA)))
            .argmax()
        )
        for name in ("soft", "hard")
    }
    assert best == {"soft": 0, "hard": 1}


def test_the_prior_of_the_zero_shot_answer_gives_the_posterior():
    """Without clipping and with lambda 1: p_0^(1 - n) times the product of the experts."""
    method = make("poe-prior", prior="zero-shot", clip=100.0)
    views = views_of(method)
    public, experts = views[ZeroShot()][0], views[OneEach()]
    calibrated = method.calibrate(Budget(100.0, DELTA))
    assert calibrated.parameter == pytest.approx(1.0)
    posterior = torch.softmax((1 - len(experts)) * public + experts.sum(0), -1)
    assert torch.allclose(method.distribution(views, calibrated), posterior, atol=1e-12)


def test_an_experts_own_prior_is_taken_out():
    method = make("poe-prior")
    views = views_of(method)
    views[ContentFree(OneEach())] = views[OneEach()]
    p = method.distribution(views, method.calibrate(BUDGET))
    assert p.tolist() == pytest.approx([0.25] * 4)


@pytest.mark.parametrize("name", ["poe", "poe-prior", "votes", "permute-and-flip"])
def test_impossible_labels_leave_a_distribution(name):
    method = make(name)
    views = {layout: rows.clone() for layout, rows in views_of(method).items()}
    for rows in views.values():
        rows[:, 0] = -math.inf
    p = method.distribution(views, method.calibrate(BUDGET))
    assert bool(torch.isfinite(p).all())


# ---- beside a search that is charged ----


@EACH_PRIVATE
def test_a_search_leaves_less_and_its_delta_is_the_labels(name):
    if name == "sampling":
        with pytest.raises(ConfigurationError, match="without subsampling"):
            make(name).calibrate(Budget(EPSILON, DELTA, search_rho=0.05))
        return
    free, paid = (make(name).calibrate(Budget(EPSILON, DELTA, search_rho=r)) for r in (0.0, 0.05))
    assert paid.rho < free.rho == free.mechanism.rho
    assert free.mechanism.delta == (DELTA if name == "votes-gaussian" else 0.0)
    assert paid.mechanism.delta == DELTA
    with pytest.raises(ConfigurationError, match="search costs more"):
        make(name).calibrate(Budget(EPSILON, DELTA, search_rho=5.0))


def test_what_no_filter_can_pay_has_no_rho():
    for method in (make("sampling"), make("votes-gaussian", rate=0.5), make("soft")):
        calibrated = method.calibrate(BUDGET)
        assert (calibrated.rho, calibrated.mechanism.rho) == (None, math.inf)


# ---- accounting against dp_accounting ----


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_gaussian_noise_agrees_with_dp_accounting(mu):
    loss = privacy_loss_distribution.from_gaussian_mechanism(
        1 / mu, value_discretization_interval=1e-3
    )
    for epsilon in (0.1, 1.0, 4.0):
        assert gaussian_delta(mu, epsilon) == pytest.approx(
            loss.get_delta_for_epsilon(epsilon), abs=1e-6
        )
    assert gaussian_delta(mu, gaussian_epsilon(mu, DELTA)) == pytest.approx(DELTA, rel=1e-6)


def test_the_mixture_agrees_with_dp_accounting():
    event = SubsampledSum(contexts=4, rate=0.2, sigma=3.0)
    loss = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        3.0,
        [math.sqrt(2) * k for k in range(5)],
        [float(stats.binom.pmf(k, 4, 0.2)) for k in range(5)],
        value_discretization_interval=5e-3,
    )
    for epsilon in (0.2, 0.5, 1.0):
        found = mixture_delta(*event.mixture, event.sigma, epsilon)
        assert found == pytest.approx(loss.get_delta_for_epsilon(epsilon), abs=1e-5)


def test_one_context_is_the_subsampled_gaussian():
    event = SubsampledSum(contexts=1, rate=0.3, sigma=1.5 * math.sqrt(2))
    loss = privacy_loss_distribution.from_gaussian_mechanism(
        1.5, sampling_prob=0.3, value_discretization_interval=1e-3
    )
    found = mixture_delta(*event.mixture, event.sigma, 0.5)
    assert found == pytest.approx(loss.get_delta_for_epsilon(0.5), abs=1e-6)


def test_the_classical_gaussian_formula_wastes_noise():
    method = make("votes-gaussian")
    for adjacency, true in (("add_or_remove_one", 2.3709), ("replace_one", 3.5112)):
        budget = Budget(EPSILON, DELTA, Adjacency(adjacency))
        published = method.published(budget)
        assert published.parameter == pytest.approx(1.7129, abs=1e-4)
        spent = epsilon_for(published.event, budget)
        assert spent == pytest.approx(true, abs=1e-3)
    many = method.published(MANY)
    assert many.parameter == pytest.approx(math.sqrt(2) * method.calibrate(MANY).parameter)


def test_sampling_at_a_low_rate_needs_less_noise():
    noise = [
        make("votes-gaussian", rate=rate).calibrate(BUDGET).parameter for rate in (0.01, 0.5, 1.0)
    ]
    assert noise == sorted(noise)


# ---- layouts and errors ----


def test_keys_are_distinct_and_layouts_hashable():
    layouts = [
        ZeroShot(),
        OneEach(),
        OneEach(0.5),
        Groups(2),
        Groups(4),
        Groups(4, 0.5),
        OnePrompt(),
        Subsampled(100, 0.1),
        Subsampled(50, 0.1),
        ContentFree(ZeroShot()),
        ContentFree(OneEach()),
        ContentFree(Groups(2)),
    ]
    assert len({name_of(layout) for layout in layouts}) == len(set(layouts)) == len(layouts)


def test_groups_hold_about_the_asked_number_of_units():
    assert make("poe-groups").layouts(8) == (Groups(4),)
    assert make("poe-groups", group_size=3).layouts(8) == (Groups(2),)
    assert make("poe-groups", group_size=16).layouts(8) == (Groups(1),)


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("nonsense", {}, "no method is called"),
        ("poe", {"temperature": 1.0}, "no parameter temperature"),
        ("votes", {"clip": 1.0}, "it has: group_size"),
        ("poe", {"clip": 2.0, "warmth": 1.0}, "has no parameter warmth; it has: clip"),
        ("poe", {"clip": 0.0}, "clip must be"),
        ("poe-groups", {"group_size": 0}, "group_size"),
        ("poe", {"prior": "secret"}, "prior"),
        ("permute-and-flip", {"utility": "surplus"}, "utility"),
        ("sampling", {"rate": 1.5}, "rate"),
        ("sampling", {"contexts": 0}, "contexts"),
        ("votes-gaussian", {"rate": 0.0, "group_size": 4}, "rate must be above 0"),
    ],
)
def test_a_bad_name_or_parameter_is_one_sentence(name, parameters, says):
    with pytest.raises(ConfigurationError, match=says):
        make(name, **parameters)


def test_a_value_of_the_wrong_type_is_not_called_an_unknown_name():
    with pytest.raises(TypeError, match="'str'"):
        make("poe", clip="wide")


def test_only_an_experts_own_prior_is_read_of_documents():
    takes = [name for name in METHODS if make(name).takes_priors]
    assert takes == ["poe-prior"]
    assert not make("poe-prior", prior="zero-shot").takes_priors


def test_rows_of_another_layout_are_refused():
    method = make("poe")
    rows = torch.zeros(2, 3).double()
    for views in ({OnePrompt(): rows}, {OneEach(): rows, OneEach(0.5): rows}):
        with pytest.raises(ConfigurationError, match="exactly one OneEach"):
            method.distribution(views, method.calibrate(Budget(1.0, DELTA)))
