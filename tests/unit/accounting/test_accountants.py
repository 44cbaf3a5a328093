"""Each accountant against the contract, and each against the others."""

import math

import dp_accounting
import pytest
from dp_accounting import pld, rdp

from dpicl_rag.accounting import (
    Accountant,
    Adjacency,
    BoundedRange,
    Composed,
    Event,
    Gaussian,
    PoissonSubsampled,
    PrivacyLossAccountant,
    PureAccountant,
    PureDP,
    RenyiAccountant,
    SelfComposed,
    SubsampledSum,
    ZeroConcentrated,
    ZeroConcentratedAccountant,
    largest_strength,
)
from dpicl_rag.accounting.events import leaves
from dpicl_rag.errors import ConfigurationError
from tests.contracts.accountant import (
    AccountantContract,
    Case,
    Pair,
    _Unknown,
    bounded_range_pairs,
    gaussian_delta,
    pure_pairs,
    subsampled_gaussian_delta,
    subsampled_sum_delta,
    worst_of,
)

ADD_OR_REMOVE = Adjacency.ADD_OR_REMOVE_ONE

BOUNDED = Case(BoundedRange(0.8), worst_of(bounded_range_pairs(0.8)))
PURE = Case(PureDP(0.5), worst_of(pure_pairs(0.5)))
CONCENTRATED = Case(ZeroConcentrated(0.125), gaussian_delta(2.0))
GAUSSIAN = Case(Gaussian(1.5), gaussian_delta(1.5))
SAMPLED_BOUNDED = Case(
    PoissonSubsampled(0.3, BoundedRange(1.5)), worst_of(bounded_range_pairs(1.5, 0.3))
)
SAMPLED_PURE = Case(PoissonSubsampled(0.3, PureDP(1.0)), worst_of(pure_pairs(1.0, 0.3)))
SAMPLED_GAUSSIAN = Case(PoissonSubsampled(0.3, Gaussian(1.0)), subsampled_gaussian_delta(1.0, 0.3))
# One coin for three draws: the draws are composed first and then mixed.
SAMPLED_ANSWER = Case(
    PoissonSubsampled(0.3, SelfComposed(BoundedRange(0.8), 3)),
    worst_of([pair.times(3).subsampled(0.3) for pair in bounded_range_pairs(0.8)[::4]]),
)
SAMPLED_SUM = Case(SubsampledSum(3, 0.3, 3.0), subsampled_sum_delta(3, 0.3, 3.0))


class TestPureAccountant(AccountantContract):
    cases = (
        *(BOUNDED, PURE, SAMPLED_BOUNDED, SAMPLED_PURE),
        Case(SAMPLED_ANSWER.event, lambda n, e: SAMPLED_ANSWER.least_delta(min(n, 3), e)),
    )
    unsupported = (_Unknown(), Gaussian(1.0), PoissonSubsampled(0.1, ZeroConcentrated(1.0)))

    def accountant(self, adjacency: Adjacency = ADD_OR_REMOVE) -> PureAccountant:
        return PureAccountant(adjacency)

    def test_epsilons_add_up(self) -> None:
        accountant = self.accountant().compose(BoundedRange(0.378), 100)
        assert accountant.total == pytest.approx(37.8)
        assert accountant.epsilon(0.0) == pytest.approx(37.8)

    def test_nested_subsamples_amplify_twice(self) -> None:
        once = self.accountant().compose(PoissonSubsampled(0.06, PureDP(1.0)))
        twice = self.accountant().compose(
            PoissonSubsampled(0.2, PoissonSubsampled(0.3, PureDP(1.0)))
        )
        assert twice.total == pytest.approx(once.total)


class TestZeroConcentratedAccountant(AccountantContract):
    cases = (BOUNDED, PURE, CONCENTRATED, GAUSSIAN)
    unsupported = (_Unknown(), PoissonSubsampled(0.1, Gaussian(1.0)), SAMPLED_SUM.event)

    def accountant(self, adjacency: Adjacency = ADD_OR_REMOVE) -> ZeroConcentratedAccountant:
        return ZeroConcentratedAccountant(adjacency)

    def test_rhos_add_up(self) -> None:
        tree = Composed((SelfComposed(BoundedRange(0.4), 5), Gaussian(3.0), ZeroConcentrated(0.2)))
        assert self.accountant().compose(tree).rho == pytest.approx(0.1 + 1 / 18 + 0.2)


class TestRenyiAccountant(AccountantContract):
    cases = (BOUNDED, PURE, CONCENTRATED, GAUSSIAN)
    unsupported = (_Unknown(), PoissonSubsampled(0.1, Gaussian(1.0)), SAMPLED_SUM.event)

    def accountant(self, adjacency: Adjacency = ADD_OR_REMOVE) -> RenyiAccountant:
        return RenyiAccountant(adjacency)

    def test_a_subsample_is_sent_to_another_accountant(self) -> None:
        for event in (Gaussian(1.0), BoundedRange(1.0)):
            with pytest.raises(ConfigurationError, match="PrivacyLossAccountant"):
                self.accountant().compose(PoissonSubsampled(0.1, event))


class TestPrivacyLossAccountant(AccountantContract):
    cases = (PURE, GAUSSIAN, SAMPLED_PURE, SAMPLED_GAUSSIAN, SAMPLED_SUM)
    unsupported = (_Unknown(), BoundedRange(1.0), PoissonSubsampled(0.1, BoundedRange(1.0)))
    tolerance = 1e-3

    def accountant(self, adjacency: Adjacency = ADD_OR_REMOVE) -> PrivacyLossAccountant:
        return PrivacyLossAccountant(adjacency, interval=1e-3)


def spent(accountant: type[Accountant], event: Event, count: int) -> float:
    return accountant(ADD_OR_REMOVE).compose(event, count).epsilon(1e-5)


def test_figures_of_one_hundred_tokens() -> None:
    """100 draws of 0.378-BR at delta 1e-5, by each way to account for them."""
    draw = BoundedRange(0.378)
    assert spent(ZeroConcentratedAccountant, draw, 100) == pytest.approx(10.011, abs=1e-3)
    assert spent(RenyiAccountant, draw, 100) == pytest.approx(9.901, abs=1e-3)
    # What is only known to be 0.378-DP: optimal composition, exact Renyi curve, plain sum.
    known_less = PureDP(0.378)
    assert spent(PrivacyLossAccountant, known_less, 100) == pytest.approx(21.680, abs=1e-3)
    assert spent(RenyiAccountant, known_less, 100) == pytest.approx(22.817, abs=1e-3)
    assert spent(PureAccountant, known_less, 100) == pytest.approx(37.8, abs=1e-3)


def adaptive_delta(epsilon: float, span: float, count: int) -> float:
    """Largest exact delta when an adversary picks each two-point draw after seeing the last."""
    if count == 0:
        return max(0.0, -math.expm1(epsilon))
    largest = 0.0
    for step in range(1, 8):
        top = span * step / 8
        pair = Pair.two_points(top, span)
        rest = (
            adaptive_delta(epsilon - top, span, count - 1),
            adaptive_delta(epsilon - top + span, span, count - 1),
        )
        largest = max(largest, float(pair.first @ rest))
    return largest


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_adaptive_composition_is_covered(epsilon: float) -> None:
    least = adaptive_delta(epsilon, 0.8, 3)
    fixed = worst_of([Pair.two_points(0.1 * step, 0.8) for step in range(1, 8)])
    assert least >= fixed(3, epsilon) * (1 - 1e-12)
    for accountant in (PureAccountant, ZeroConcentratedAccountant, RenyiAccountant):
        composed = accountant(ADD_OR_REMOVE).compose(BoundedRange(0.8), 3)
        assert composed.delta(epsilon) >= least


@pytest.mark.parametrize("count", [1, 3, 8])
def test_loss_distributions_agree_with_enumeration(count: int) -> None:
    accountant = PrivacyLossAccountant(ADD_OR_REMOVE).compose(PureDP(0.5), count)
    for epsilon in (0.0, 0.25, 0.75, 1.5):
        exact = PURE.least_delta(count, epsilon)
        assert accountant.delta(epsilon) == pytest.approx(exact, rel=1e-3, abs=1e-15)


def test_more_knowledge_never_costs_more() -> None:
    draw = BoundedRange(0.3)
    for count in (1, 10, 64):
        exact = spent(RenyiAccountant, draw, count)
        assert exact <= spent(ZeroConcentratedAccountant, draw, count)
        assert exact < spent(RenyiAccountant, PureDP(0.3), count)
        sampled = spent(PureAccountant, PoissonSubsampled(0.1, draw), count)
        assert sampled < 0.5 * spent(PureAccountant, draw, count)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("noise", [0.8, 2.0])
def test_subsampled_gaussian_agrees_with_dp_accounting(rate: float, noise: float) -> None:
    """The same figure as its own loss distributions, and below its Renyi curves."""
    relation = dp_accounting.NeighboringRelation[ADD_OR_REMOVE.name]
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    exact, renyi = (
        reference.compose(event, 20).get_epsilon(1e-5)
        for reference in (
            pld.PLDAccountant(relation),
            rdp.RdpAccountant(orders=range(2, 129), neighboring_relation=relation),
        )
    )
    here = spent(PrivacyLossAccountant, PoissonSubsampled(rate, Gaussian(noise)), 20)
    assert here == pytest.approx(exact, rel=1e-4)
    assert here < renyi


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_gaussian_noise_is_stated_for_the_accountants_own_neighbours(adjacency: Adjacency) -> None:
    accountant = PrivacyLossAccountant(adjacency).compose(Gaussian(1.0), 4)
    assert accountant.delta(1.0) == pytest.approx(gaussian_delta(1.0)(4, 1.0), rel=1e-4)


def test_composed_gaussian_noise_under_one_coin_is_one_gaussian() -> None:
    composed = PoissonSubsampled(0.2, Composed((SelfComposed(Gaussian(2.0), 2), Gaussian(2.0))))
    single = PoissonSubsampled(0.2, Gaussian(2.0 / math.sqrt(3)))
    several, one = (spent(PrivacyLossAccountant, event, 3) for event in (composed, single))
    assert several == pytest.approx(one)


@pytest.mark.parametrize(
    ("accountant", "event"),
    [(PureAccountant, BoundedRange(1.0)), (PrivacyLossAccountant, Gaussian(1.0))],
)
def test_rates_zero_and_one(accountant: type[Accountant], event: Event) -> None:
    assert spent(accountant, PoissonSubsampled(0.0, event), 5) == 0
    everyone = spent(accountant, PoissonSubsampled(1.0, event), 5)
    assert everyone == pytest.approx(spent(accountant, event, 5))


@pytest.mark.parametrize(
    ("accountant", "draw"),
    [(PureAccountant, BoundedRange(0.5)), (PrivacyLossAccountant, Gaussian(2.0))],
)
def test_one_coin_and_fresh_coins_differ(accountant: type[Accountant], draw: Event) -> None:
    draws = SelfComposed(draw, 8)
    one_coin = spent(accountant, PoissonSubsampled(0.1, draws), 1)
    fresh = spent(accountant, PoissonSubsampled(0.1, draw), 8)
    assert fresh < one_coin < spent(accountant, draws, 1)


def test_largest_strength_meets_its_target() -> None:
    def spend(strength: float) -> float:
        event = PoissonSubsampled(0.2, BoundedRange(strength))
        return PureAccountant(ADD_OR_REMOVE).compose(event, 16).epsilon(1e-5)

    strength = largest_strength(spend, 2.0)
    assert 2.0 * (1 - 1e-6) <= spend(strength) <= 2.0


def test_leaves_keep_a_subsample_whole() -> None:
    answer = PoissonSubsampled(0.5, SelfComposed(PureDP(1.0), 4))
    tree = Composed((SelfComposed(answer, 2), PureDP(2.0)))
    assert list(leaves(tree, 3)) == [(answer, 6), (PureDP(2.0), 3)]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: PureDP(-1.0), "epsilon"),
        (lambda: PureDP(math.inf), "epsilon"),
        (lambda: BoundedRange(math.nan), "epsilon"),
        (lambda: ZeroConcentrated(-0.1), "rho"),
        (lambda: Gaussian(0.0), "noise_multiplier"),
        (lambda: PoissonSubsampled(1.5, PureDP(1.0)), "rate"),
        (lambda: PoissonSubsampled(0.5, "draw"), "event"),
        (lambda: SubsampledSum(0, 0.5, 1.0), "contexts"),
        (lambda: SubsampledSum(3, 0.0, 1.0), "rate"),
        (lambda: SubsampledSum(3, 0.5, 0.0), "sigma"),
        (lambda: Composed([PureDP(1.0)]), "tuple"),
        (lambda: Composed((PureDP(1.0), 2.0)), "event"),
        (lambda: SelfComposed(PureDP(1.0), 0), "count"),
    ],
)
def test_events_check_their_parameters(make, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        make()


class ForgetfulAccountant(RenyiAccountant):
    """Forgets the count: what dp_accounting's main branch does for the exponential mechanism."""

    def compose(self, event: Event, count: int = 1) -> "ForgetfulAccountant":
        super().compose(Composed(tuple(leaf for leaf, _ in leaves(event, count))))
        return self


class HalfPriceAccountant(RenyiAccountant):
    """Charges a bounded-range draw as if half its range could not happen."""

    def divergence(self, alpha: float) -> float:
        return super().divergence(alpha) / 4


class HastyAccountant(RenyiAccountant):
    """Adds the parts of a tree one by one, before it knows the rest."""

    def compose(self, event: Event, count: int = 1) -> "HastyAccountant":
        for leaf, times in leaves(event, count):
            super().compose(leaf, times)
        return self


@pytest.mark.parametrize(
    ("broken", "caught_by"),
    [
        (ForgetfulAccountant, "test_count_is_repetition"),
        (ForgetfulAccountant, "test_counts_multiply_through_the_tree"),
        (ForgetfulAccountant, "test_more_costs_more"),
        (ForgetfulAccountant, "test_never_below_an_exact_lower_bound"),
        (HalfPriceAccountant, "test_never_below_an_exact_lower_bound"),
        (HastyAccountant, "test_a_wrong_tree_changes_nothing"),
    ],
)
def test_the_contract_catches_planted_faults(broken: type[Accountant], caught_by: str) -> None:
    class Planted(AccountantContract):
        cases = (BOUNDED, PURE)

        def accountant(self, adjacency: Adjacency = ADD_OR_REMOVE) -> Accountant:
            return broken(adjacency)

    with pytest.raises(AssertionError):
        getattr(Planted(), caught_by)()
