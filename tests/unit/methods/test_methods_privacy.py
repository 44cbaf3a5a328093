"""Every private method's exact distribution, compared between neighbours with its charge."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from dpicl_rag.accounting import Adjacency, BoundedRange, Budget, PureDP, Stability
from dpicl_rag.accounting.conversion import gaussian_delta
from dpicl_rag.accounting.subsampling import mixture_delta
from dpicl_rag.auditing.neighbours import realised_range
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.selection import ReportNoisyMax, argmax_distribution
from dpicl_rag.mechanisms.utilities import Probability
from dpicl_rag.methods import (
    METHODS,
    ContentFree,
    Groups,
    OneEach,
    Subsampled,
    ZeroShot,
    make,
)
from dpicl_rag.methods.base import Calibrated
from dpicl_rag.methods.votes import VOTE

ARRIVAL, REPLACED = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
EPSILON, DELTA = 3.0, 1e-2
ROUNDING = 1e-9
SURE = 40.0


def row(*scores: float) -> torch.Tensor:
    return torch.log_softmax(torch.tensor(scores, dtype=torch.float64), dim=-1)


def says(label: int, labels: int = 3) -> torch.Tensor:
    return row(*(0.0 if at == label else -SURE for at in range(labels)))


def random_rows(count: int) -> list[torch.Tensor]:
    noise = torch.Generator().manual_seed(5)
    return [row(*(4 * torch.randn(3, generator=noise)).tolist()) for _ in range(count)]


UNIFORM = row(0.0, 0.0, 0.0)
PALETTE = [
    *(says(label) for label in range(3)),
    row(-SURE, 0.0, 0.0),
    row(0.0, 0.0, -SURE),
    row(0.0, -1.5, -3.0),
    row(0.0, -math.inf, -math.inf),
    UNIFORM,
    *random_rows(4),
]
# Others who agree make the worst case: what one expert then moves is nearly its whole charge.
AROUND = [[], [says(0)], [says(2)] * 2, [says(1), row(0.0, 0.0, -2.0)], [says(2)] * 24]

PURE = {
    "poe": {},
    "poe, clip 1": {"clip": 1.0},
    "poe-prior": {},
    "poe, public prior": {"prior": "public"},
    "poe, zero-shot prior": {"prior": "zero-shot"},
    "votes": {},
    "permute-and-flip": {},
    "permute-and-flip-votes": {},
}
EACH_PURE = pytest.mark.parametrize("case", sorted(PURE))


def pure(case: str, **more):
    return make(case.partition(",")[0], **PURE[case], **more)


class Context:
    """Rows of a context: experts with their own priors, under one layout."""

    def __init__(self, method, experts, priors):
        rows = torch.stack(experts) if experts else torch.zeros(0, 3, dtype=torch.float64)
        self.views = {}
        for layout in method.layouts(max(2, len(experts))):
            match layout:
                case ContentFree(of=ZeroShot()) | ZeroShot():
                    self.views[layout] = row(0.0, -1.0, -4.0)[None]
                case ContentFree():
                    self.views[layout] = torch.stack(priors) if priors else rows
                case _:
                    self.views[layout] = rows
        self.method = method

    def log_probs(self, calibrated: Calibrated) -> torch.Tensor:
        return torch.log(self.method.distribution(self.views, calibrated))


def worst(method, calibrated, *, changed: bool) -> tuple[float, float]:
    """Largest absolute log ratio, and largest range of log ratios, over all neighbours."""
    ratio = spread = 0.0
    # A unit is an expert and its own prior.
    units = [(expert, UNIFORM) for expert in PALETTE]
    if method.parameters.get("prior") == "own":
        units += [(UNIFORM, expert) for expert in PALETTE[:6]] + [(says(0), says(1))]
    for others in AROUND:
        priors = [UNIFORM] * len(others)
        one = [
            Context(method, [*others, expert], [*priors, prior]).log_probs(calibrated)
            for expert, prior in units
        ]
        without = Context(method, others, priors).log_probs(calibrated)
        pairs = itertools.combinations(one, 2) if changed else ((p, without) for p in one)
        for p, q in pairs:
            ratio = max(ratio, float((p - q).abs().max()))
            spread = max(spread, realised_range(p, q))
    return ratio, spread


@pytest.mark.one_in(3)
@EACH_PURE
@pytest.mark.parametrize("adjacency", [ARRIVAL, REPLACED])
def test_one_unit_moves_a_pure_method_by_its_charge_and_no_less(case, adjacency):
    method = pure(case)
    calibrated = method.calibrate(Budget(EPSILON, DELTA, adjacency))
    ratio, spread = worst(method, calibrated, changed=adjacency is REPLACED)
    assert 0.95 * EPSILON <= ratio <= EPSILON + ROUNDING
    match calibrated.event:
        case BoundedRange(epsilon):
            assert 0.95 * epsilon <= spread <= epsilon + ROUNDING
        case PureDP(epsilon):
            assert epsilon == pytest.approx(EPSILON)
        case _:
            raise AssertionError


@EACH_PURE
def test_a_unit_in_a_group_changes_one_expert(case):
    method = pure(case, group_size=2)
    calibrated = method.calibrate(Budget(EPSILON, DELTA, ARRIVAL))
    ratio, _ = worst(method, calibrated, changed=True)
    assert 0.95 * EPSILON <= ratio <= EPSILON + ROUNDING


@EACH_PURE
def test_half_the_noise_is_found_out(case):
    """The plant: every test above must fail when a factor of two is forgotten."""
    method = pure(case)
    generous = method.calibrate(Budget(2 * EPSILON, DELTA, ARRIVAL))
    ratio, _ = worst(method, generous, changed=False)
    assert ratio > 1.5 * EPSILON


@pytest.mark.parametrize("name", ["poe", "poe-prior"])
def test_the_published_factor_two_claim_is_shown_failing(name):
    method = make(name)
    published = method.published(Budget(EPSILON, DELTA, REPLACED))
    assert published.noise == "published"
    ratio, spread = worst(method, published, changed=True)
    assert ratio > 1.9 * EPSILON
    # The event tells the truth about it.
    assert isinstance(published.event, BoundedRange)
    assert spread <= published.event.epsilon + ROUNDING == pytest.approx(2 * EPSILON)
    # For arrivals the paper is right, and there is no other line to show.
    assert method.published(Budget(EPSILON, DELTA, ARRIVAL)) is None


def test_the_published_claim_fails_for_groups_too():
    method = make("poe-groups")
    ratio, _ = worst(method, method.published(Budget(EPSILON, DELTA, ARRIVAL)), changed=True)
    assert ratio > 1.9 * EPSILON


def test_permute_and_flip_is_not_bounded_range():
    """Why it may not be charged an eighth of a square."""
    method = make("permute-and-flip")
    calibrated = method.calibrate(Budget(EPSILON, DELTA))
    _, spread = worst(method, calibrated, changed=False)
    assert spread > 1.1 * EPSILON
    assert calibrated.rho == pytest.approx(EPSILON * math.tanh(EPSILON / 2))


# ---- Gaussian noise: (epsilon, delta) ----

# Near epsilon 0 the argmax of a tie tells nearly all that the sums tell; further out it tells far
# less, and a wrong factor could hide.
SMALL, LIKELY = 0.02, 0.05


def hockey_stick(p: torch.Tensor, q: torch.Tensor, epsilon: float) -> float:
    """Least delta of either direction at epsilon."""
    return max(
        float((one - math.exp(epsilon) * other).clamp(min=0).sum())
        for one, other in ((p, q), (q, p))
    )


def with_noise(sigma: float, utility=VOTE) -> Calibrated:
    """A noisy argmax with noise that no budget asked for."""
    mechanism = ReportNoisyMax(utility, sigma, rho=math.inf, delta=1.0)
    return Calibrated(mechanism, sigma, None, Budget(SMALL, LIKELY))


def tallied(counts) -> torch.Tensor:
    votes = [says(label, len(counts)) for label, count in enumerate(counts) for _ in range(count)]
    return torch.stack(votes) if votes else torch.zeros(0, len(counts), dtype=torch.float64)


# Leads of all sizes: where the noise is large, only a far tail tells neighbours apart.
TALLIES = [
    *((lead, 0) for lead in range(0, 24, 3)),
    *((lead, *(0,) * 11) for lead in range(0, 24, 3)),
    (2, 2, 2),
    (1, 3, 3),
    (4, *(2,) * 5),
]


def worst_delta(method, calibrated, layout, epsilon, *, changed: bool) -> float:
    found = 0.0
    for counts in TALLIES:
        rows, labels = tallied(counts), len(counts)
        reached = [
            method.distribution({layout: torch.cat([rows, says(label, labels)[None]])}, calibrated)
            for label in range(labels)
        ]
        without = method.distribution({layout: rows}, calibrated)
        pairs = itertools.combinations(reached, 2) if changed else ((p, without) for p in reached)
        found = max(found, *(hockey_stick(p, q, epsilon) for p, q in pairs))
    return found


GAUSSIAN = [
    ({}, ARRIVAL, OneEach()),
    ({}, REPLACED, OneEach()),
    ({"group_size": 2}, ARRIVAL, Groups(4)),
]


@pytest.mark.parametrize(("parameters", "adjacency", "layout"), GAUSSIAN)
def test_gaussian_votes_stay_within_epsilon_and_delta(parameters, adjacency, layout):
    method = make("votes-gaussian", **parameters)
    changed = adjacency is REPLACED or method.group_size > 1
    calibrated = method.calibrate(Budget(SMALL, LIKELY, adjacency))
    found = worst_delta(method, calibrated, layout, SMALL, changed=changed)
    assert 0.65 * LIKELY < found <= LIKELY * (1 + 1e-6)
    # Half the noise, as if the sensitivity were half of what it is.
    wrong = with_noise(calibrated.parameter / 2)
    assert worst_delta(method, wrong, layout, SMALL, changed=changed) > 1.2 * LIKELY


@pytest.mark.parametrize(("parameters", "adjacency", "layout"), GAUSSIAN)
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_at_larger_epsilon_too(parameters, adjacency, layout, epsilon):
    method = make("votes-gaussian", **parameters)
    changed = adjacency is REPLACED or method.group_size > 1
    calibrated = method.calibrate(Budget(epsilon, DELTA, adjacency))
    assert worst_delta(method, calibrated, layout, epsilon, changed=changed) <= DELTA
    # What is released is a function of noisy counts: these meet the charge exactly.
    moved = math.sqrt(2) if changed else 1.0
    assert gaussian_delta(moved / calibrated.parameter, epsilon) == pytest.approx(DELTA)


def test_many_labels_come_nearer_to_the_gaussian_charge():
    """The largest of many rivals hardly varies, so the argmax tells one count."""
    calibrated = make("votes-gaussian").calibrate(Budget(1.0, DELTA))

    def found(labels: int) -> float:
        worst = 0.0
        for ahead in range(12):
            counts = [torch.zeros(labels, dtype=torch.float64) for _ in range(2)]
            counts[0][0], counts[1][0] = ahead + 1, ahead
            both = (argmax_distribution(sums, calibrated.parameter) for sums in counts)
            worst = max(worst, hockey_stick(*both, 1.0))
        return worst

    assert found(2) < 0.9 * found(300) <= 0.9 * DELTA


def test_a_sampled_unit_is_a_mixture_over_its_coin():
    """Coins of the others are all looked at; those of the unit are mixed."""
    rate = 0.4
    method = make("votes-gaussian", rate=rate)
    calibrated = method.calibrate(Budget(SMALL, LIKELY))
    layout = OneEach(rate)

    def worst_with(noise: Calibrated) -> float:
        found = 0.0
        for counts in TALLIES:
            rows, labels = tallied(counts), len(counts)
            out = method.distribution({layout: rows}, noise)
            for label in range(labels):
                joined = torch.cat([rows, says(label, labels)[None]])
                mixed = (1 - rate) * out + rate * method.distribution({layout: joined}, noise)
                found = max(found, hockey_stick(mixed, out, SMALL))
        return found

    assert 0.6 * LIKELY < worst_with(calibrated) <= LIKELY * (1 + 1e-6)
    wrong = with_noise(calibrated.parameter / 2)
    assert worst_with(wrong) > 1.2 * LIKELY


def sampling_delta(method, sigma: float, epsilon: float) -> float:
    """Two units and all their coins; the contexts of the second say what it likes."""
    contexts, rate = method.contexts, method.rate
    layout = Subsampled(contexts, rate)
    noise = with_noise(sigma, Probability())
    coins = list(itertools.product((False, True), repeat=contexts))

    def chance(coin) -> float:
        return math.prod(rate if joined else 1 - rate for joined in coin)

    found = 0.0
    for alone, together in itertools.product(PALETTE[:3], PALETTE[:3]):
        with_unit, without = torch.zeros(3).double(), torch.zeros(3).double()
        for own in coins:
            rows = torch.stack([alone if joined else says(2) for joined in own])
            without += chance(own) * method.distribution({layout: rows}, noise)
            for new in coins:
                rows = torch.stack(
                    [
                        together if arrived else alone if joined else says(2)
                        for joined, arrived in zip(own, new, strict=True)
                    ]
                )
                both = chance(own) * chance(new)
                with_unit += both * method.distribution({layout: rows}, noise)
        found = max(found, hockey_stick(with_unit, without, epsilon))
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("contexts", "rate"), [(1, 0.5), (2, 0.3), (3, 0.6)])
def test_sampling_stays_within_epsilon_and_delta(contexts, rate):
    method = make("sampling", contexts=contexts, rate=rate)
    sigma = method.calibrate(Budget(SMALL, LIKELY)).parameter
    assert 0.75 * LIKELY < sampling_delta(method, sigma, SMALL) <= LIKELY * (1 + 1e-6)
    assert sampling_delta(method, sigma / 2, SMALL) > 1.4 * LIKELY
    if contexts == 3:
        # As if a unit could join one context at most.
        single = make("sampling", contexts=1, rate=rate).calibrate(Budget(SMALL, LIKELY)).parameter
        assert sampling_delta(method, single, SMALL) > 1.4 * LIKELY


@pytest.mark.one_in(3)
@pytest.mark.parametrize("angle", [0.0, 0.5, math.pi / 2, 2.5])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_vectors_are_dominated_by_their_lengths_on_one_line(angle, epsilon):
    """Two contexts move predictions in two directions of the plane: integrated numerically."""
    rate, sigma, length = 0.3, 1.4, math.sqrt(2)
    first = (length, 0.0)
    second = (length * math.cos(angle), length * math.sin(angle))
    both = (first[0] + second[0], first[1] + second[1])
    means = [(0.0, 0.0), first, second, both]
    chances = [(1 - rate) ** 2, rate * (1 - rate), rate * (1 - rate), rate**2]

    def density(x, y, mean):
        return stats.norm.pdf(x, mean[0], sigma) * stats.norm.pdf(y, mean[1], sigma)

    grid = np.arange(-14.0, 17.0, 0.05)
    x, y = np.meshgrid(grid, grid)
    mixed = sum(c * density(x, y, mean) for c, mean in zip(chances, means, strict=True))
    alone = density(x, y, means[0])
    found = 0.0025 * max(
        np.maximum(mixed - math.exp(epsilon) * alone, 0).sum(),
        np.maximum(alone - math.exp(epsilon) * mixed, 0).sum(),
    )
    line = mixture_delta([0.0, length, 2 * length], [0.49, 0.42, 0.09], sigma, epsilon)
    assert found <= line + 3e-5
    if angle == 0:
        assert found == pytest.approx(line, abs=3e-5)


def test_the_mixtures_delta_is_the_integral():
    sensitivities, chances, sigma = [0.0, 1.0, 3.0], [0.5, 0.3, 0.2], 1.7

    at = np.arange(-25.0, 28.0, 1e-3)
    alone = stats.norm.pdf(at, 0, sigma)
    mixed = sum(
        c * stats.norm.pdf(at, s, sigma) for s, c in zip(sensitivities, chances, strict=True)
    )
    for epsilon in (0.1, 0.7, 2.0):
        found = mixture_delta(sensitivities, chances, sigma, epsilon)
        assert found == pytest.approx(
            1e-3
            * max(
                np.maximum(mixed - math.exp(epsilon) * alone, 0).sum(),
                np.maximum(alone - math.exp(epsilon) * mixed, 0).sum(),
            ),
            abs=1e-6,
        )


# ---- what cannot be sound is refused ----


@pytest.mark.parametrize(
    ("name", "parameters"), [("sampling", {}), ("votes-gaussian", {"rate": 0.5})]
)
def test_sampling_is_refused_where_it_does_not_amplify(name, parameters):
    method = make(name, **parameters)
    with pytest.raises(ConfigurationError, match="add-or-remove"):
        method.calibrate(Budget(1.0, 1e-5, REPLACED))
    with pytest.raises(ConfigurationError, match="add-or-remove"):
        method.calibrate(Budget(1.0, 1e-5, stability=Stability(added=0, changed=1)))


@pytest.mark.parametrize(
    "name", [name for name in METHODS if make(name).private and name != "sampling"]
)
def test_top_k_retrieval_doubles_what_an_expert_costs(name):
    """Its stability: no expert added, one changed."""
    method = make(name)
    direct = method.calibrate(Budget(1.0, 1e-5, REPLACED))
    arrival = method.calibrate(Budget(1.0, 1e-5, stability=Stability(added=0, changed=1)))
    if name != "poe-groups":
        assert arrival.parameter == pytest.approx(direct.parameter)
    twice = method.calibrate(Budget(1.0, 1e-5, REPLACED, stability=Stability(added=0, changed=1)))
    noise = twice.parameter / arrival.parameter
    assert noise == pytest.approx(2.0 if name == "votes-gaussian" else 0.5)
