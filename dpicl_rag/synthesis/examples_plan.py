"""The plan of a synthesis of examples: its cost and its draws, public, before any data is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from dpicl_rag import _validate
from dpicl_rag.accounting import (
    SQRT_2,
    Adjacency,
    Budget,
    Event,
    FixedSizeSubsampled,
    Gaussian,
    PoissonSubsampled,
    PureDP,
    ZeroConcentrated,
    epsilon_for,
    epsilon_to_rho,
    gaussian_multiplier,
    largest_strength,
    strength_for,
    zcdp,
)
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.accounting.calibration import fixed_size_multiplier
from dpicl_rag.accounting.conversion import NANO
from dpicl_rag.accounting.prices import Price, PricedPlan
from dpicl_rag.accounting.pure_dp import amplified_epsilon
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import rounded_up
from dpicl_rag.mechanisms.points import LEAST
from dpicl_rag.mechanisms.selection import ExponentialMechanism, Mechanism
from dpicl_rag.mechanisms.utilities import Surplus
from dpicl_rag.synthesis.noisy_sums import (
    Adaptive,
    AdaptiveConstants,
    Difference,
    FewShot,
    FewShotPermuteAndFlip,
)
from dpicl_rag.synthesis.pools import Sampler, fixed_size, poisson

ExamplesMethod = Literal[
    "exponential", "few-shot", "few-shot-permute-and-flip", "adaptive", "difference"
]
METHODS: tuple[ExamplesMethod, ...] = get_args(ExamplesMethod)

RADIUS = 0.5
"""Length to which `difference` cuts, of at most sqrt(2), where no other is given."""

_ROUNDING = 1 + 1e-9
"""Noise beyond the charge's, for the last bits of a point's length."""


@dataclass(frozen=True, slots=True)
class ExamplesPlan(PricedPlan):
    """Public numbers of one synthesis of examples.

    Attributes:
        method: How tokens are drawn.
        mechanism: Draws a token.
        sampler: Draws experts; None where units are cut into batches, one for each text.
        fresh: Whether every token has experts of its own; else a text keeps those it has.
        event: What one token costs a unit of its pool; of `exponential`, what all of them do.
        draws: How many such events one unit pays for at most.
        pools: How many labels' pools one unit, or its replacement, changes.
        epsilon: What is promised, at ``delta``: what was asked for, or what all constants of the
            adaptive method come to where they are given.
        true_epsilon: What the noise gives: the promise, but for a search's last thousandth.
        delta: See ``epsilon``.
        token_rho: zCDP rho of a token for a unit of its pool; None where samples have none.
        rho: zCDP rho of the whole run, for every unit; None where samples have none.
    """

    method: ExamplesMethod
    mechanism: Mechanism
    sampler: Sampler | None
    fresh: bool
    event: Event
    draws: int
    pools: int
    epsilon: float
    true_epsilon: float
    delta: float
    token_rho: float | None
    rho: float | None

    @property
    def parts(self) -> tuple[Price, ...]:
        """The texts: all that is paid for."""
        if self.sampler is None:
            what = "each unit for what it tells, in one text of each of its labels"
        elif self.token_rho is None:
            what = f"{self.draws} tokens for a unit, each from a sample of its own"
        else:
            what = f"{self.draws} tokens for a unit, each at {self.token_rho:.4g}"
        return (Price("texts", self.rho, what),)

    def numbers(self) -> dict[str, Any]:
        """The method, its noise, and what that comes to."""
        noise = {
            name: value if isinstance(value, float) else str(value)
            for name in ("sigma", "strength", "radius", "target", "noises")
            if not callable(value := getattr(self.mechanism, name, None)) and value is not None
        }
        return {
            "method": self.method,
            "true_epsilon": self.true_epsilon,
            "tokens_that_a_unit_pays_for": self.draws if self.fresh else None,
            **noise,
        }


def examples_plan(
    method: ExamplesMethod,
    labels: int,
    *,
    epsilon: float | None,
    delta: float,
    texts_per_label: int,
    max_tokens: int,
    experts: int,
    per_expert: int,
    rate: float | None,
    candidates: int,
    adjacency: Adjacency,
    labels_per_unit: int,
    adaptive: AdaptiveConstants | None = None,
    radius: float | None = None,
    in_rho: bool = False,
) -> ExamplesPlan:
    """The plan of `synthesise_examples`, whose arguments these are.

    ``labels`` is how many there are, and ``in_rho`` whether the charge is to fit a ledger's zCDP
    budget of this epsilon.

    Raises:
        ConfigurationError: A number is outside its range, settings do not fit each other, the
            constants of the adaptive method cost more than ``epsilon``, or the ledger has no charge
            for them.
    """
    for name, value in (
        ("the number of labels", labels),
        ("texts_per_label", texts_per_label),
        ("max_tokens", max_tokens),
        ("experts", experts),
        ("per_expert", per_expert),
        ("candidates", candidates),
        ("labels_per_unit", labels_per_unit),
    ):
        _validate.count(name, value)
    if method not in METHODS:
        raise ConfigurationError(f"method must be one of {', '.join(METHODS)}")
    if method == "adaptive" and rate is None:
        raise ConfigurationError(
            "the adaptive method takes a sample for every token; give its public rate"
        )
    _refuse_strangers(method, adaptive, radius)
    replaced = adjacency is Adjacency.REPLACE_ONE
    if replaced and rate is None and method != "exponential":
        raise ConfigurationError(
            "under replace-one adjacency a sample has a fixed size; give its public rate"
        )
    pools = min(labels, labels_per_unit * (2 if replaced else 1))
    draws = pools * texts_per_label * max_tokens
    constants = adaptive or AdaptiveConstants()
    priced = method == "adaptive" and constants.priced(searched=radius is None)
    if epsilon is None and not priced:
        raise ConfigurationError(
            "give epsilon; it follows from the settings only where all three noises of the "
            "adaptive method are given"
        )
    # Of a price that is not known yet only delta, adjacency and queries are asked.
    budget = Budget(1.0 if epsilon is None else epsilon, delta, adjacency, queries=draws)
    # A ledger keeps a budget of the same epsilon as less rho.
    kept = replace(budget, delta=SHARES.beside_pool(delta)) if in_rho else budget
    if method == "exponential":
        return _exponential(kept, delta, pools, per_expert)
    share = 1.0 if rate is None else rate
    sampled = _Sampled(kept, experts, per_expert, share, in_rho, constants, radius, priced)
    mechanism, event = sampled.made(method, candidates)
    token_rho = mechanism.rho if sampled.rate == 1 else None
    whole = None if token_rho is None else rounded_up(Fraction(token_rho) * draws)
    if in_rho and whole is None:
        raise ConfigurationError(
            "a ledger counts zCDP, which has no charge for samples: leave rate out (all examples "
            "are read once for a text), use method='exponential', or keep the account yourself"
        )
    cost = epsilon_for(event, budget)
    if priced:
        _check_price(cost, whole if in_rho else None, kept, given=epsilon is not None)
    return ExamplesPlan(
        method=method,
        mechanism=mechanism,
        sampler=sampled.sampler,
        fresh=sampled.rate < 1,
        event=event,
        draws=draws,
        pools=pools,
        epsilon=cost if priced else budget.epsilon,
        true_epsilon=cost,
        delta=delta,
        token_rho=token_rho,
        rho=whole,
    )


def _refuse_strangers(
    method: str, adaptive: AdaptiveConstants | None, radius: float | None
) -> None:
    """Refuse settings that the method does not have."""
    if adaptive is not None and method != "adaptive":
        raise ConfigurationError(f"the {method} method has no constants of the adaptive one")
    if radius is None:
        return
    if method not in ("adaptive", "difference"):
        raise ConfigurationError(f"the {method} method has no radius")
    if not LEAST <= radius <= SQRT_2:
        raise ConfigurationError(f"radius must lie between {LEAST:g} and sqrt(2)")
    if adaptive is not None and adaptive.radius_noise is not None:
        raise ConfigurationError("a radius that is given is not searched for: leave its noise out")


def _check_price(cost: float, rho: float | None, budget: Budget, *, given: bool) -> None:
    """Refuse constants that cost more than the budget, or that delta alone would pay for."""
    if not cost > 0:
        raise ConfigurationError(
            f"delta {budget.delta:g} pays for samples as rare as these by itself; choose a smaller "
            "delta"
        )
    over = rho is not None and rho > epsilon_to_rho(budget.epsilon, budget.delta)
    if given and (cost > budget.epsilon or over):
        kept = f" and rho {rho:.4g}, more than a ledger keeps for it" if over else ""
        raise ConfigurationError(
            f"these constants cost epsilon {_up(cost)}{kept}, and the budget is "
            f"{budget.epsilon:g}: give a larger epsilon, more noise, a smaller rate or fewer tokens"
        )


def _up(value: float) -> str:
    """Four digits that are not below a number, so that what is said is enough."""
    if math.isinf(value):
        return "without bound"
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / step) * step:.4g}"


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Noise on sums over a fresh sample for every token.

    The constants are of the adaptive method, and ``priced`` where all of its noise is given.
    """

    budget: Budget
    experts: int
    per_expert: int
    rate: float
    in_rho: bool
    constants: AdaptiveConstants
    radius: float | None
    priced: bool

    @property
    def _replaced(self) -> bool:
        return self.budget.adjacency is Adjacency.REPLACE_ONE

    @property
    def _changed(self) -> bool:
        """True where an expert changes, in place of coming or going."""
        return self._replaced or self.per_expert > 1

    @property
    def _sums_l2(self) -> float:
        """Distance by which the sum of probability vectors moves."""
        return SQRT_2 if self._changed else 1.0

    @property
    def _nano_share(self) -> float:
        """A token's share of the budget in whole nano-rho: a ledger rounds up what is paid.

        Raises:
            ConfigurationError: There is none.
        """
        whole = Fraction(epsilon_to_rho(self.budget.epsilon, self.budget.delta))
        share = math.floor(whole * NANO / self.budget.queries)
        if not share:
            raise ConfigurationError(
                "epsilon is too small for a ledger to charge so many tokens; ask for fewer of them"
            )
        return share / NANO

    @property
    def sampler(self) -> Sampler:
        groups = None if self.per_expert == 1 else self.experts
        if self._replaced:
            return fixed_size(self.experts * self.per_expert, self.rate, groups)
        return poisson(self.rate, groups)

    def made(self, method: str, candidates: int) -> tuple[Mechanism, Event]:
        """The mechanism and what one token costs."""
        delta = self.budget.delta
        if method == "few-shot-permute-and-flip":
            strength, event = self._flips()
            rho = zcdp(strength * (2 if self._changed else 1))
            return FewShotPermuteAndFlip(candidates, strength, rho, delta), event
        if self.priced:
            return self._priced(candidates)
        multiplier, event = self._gaussian()
        rho = 1 / (2 * multiplier**2)
        noise, moved = multiplier * _ROUNDING, self._moved
        if method == "few-shot":
            sigma = noise * self._sums_l2
            return FewShot(candidates, sigma, rho, delta), event
        if method == "difference":
            radius = RADIUS if self.radius is None else self.radius
            sigma = noise * moved * radius
            return Difference(candidates, self.experts, radius, sigma, rho, delta), event
        return self._adaptive(candidates, noise, rho), event

    def _priced(self, candidates: int) -> tuple[Mechanism, Event]:
        """The adaptive method whose constants are all given: the price is theirs."""
        noises = self.constants.noises(searched=self.radius is None)
        multiplier = noises.multiplier / _ROUNDING
        rho = 1 / (2 * multiplier**2)
        if self.in_rho:  # a ledger rounds up every token that it pays for
            rho = rounded_up(Fraction(math.ceil(Fraction(rho) * NANO), NANO))
        return self._adaptive(candidates, math.inf, rho), self._event(multiplier)

    def _adaptive(self, candidates: int, multiplier: float, rho: float) -> Adaptive:
        noises = self.constants.noises(multiplier, searched=self.radius is None)
        rest = (self._moved, rho, self.budget.delta, self.constants, self.radius)
        return Adaptive(candidates, self.experts, noises, *rest)

    @property
    def _moved(self) -> int:
        """Lengths of a difference that an expert moves a sum by."""
        return 2 if self._changed else 1

    def _gaussian(self) -> tuple[float, Event]:
        """The least noise over sensitivity that the budget pays for, and what a token costs."""
        if self.rate == 1 and self.in_rho:
            multiplier = math.sqrt(1 / (2 * self._nano_share)) * _ROUNDING
        elif self.rate == 1:
            multiplier = gaussian_multiplier(self.budget)
        elif self._replaced:
            multiplier = fixed_size_multiplier(self.budget, self.rate)
        else:
            multiplier = gaussian_multiplier(self.budget, self.rate)
        return multiplier, self._event(multiplier)

    def _event(self, multiplier: float) -> Event:
        """The cost of a token: noise on everyone, or on a sample."""
        noise = Gaussian(multiplier)
        if self.rate == 1:
            return noise
        if self._replaced:
            return FixedSizeSubsampled(self.rate, noise)
        return PoissonSubsampled(self.rate, noise)

    def _flips(self) -> tuple[float, Event]:
        if self._replaced and self.rate < 1:
            raise ConfigurationError(
                "permute-and-flip has no charge for samples of a fixed size; use add-or-remove "
                "adjacency"
            )
        factor = 2 if self._changed else 1

        def event(strength: float) -> PureDP:
            return PureDP(amplified_epsilon(strength * factor, self.rate))

        budget = self.budget
        if self.in_rho and self.rate == 1:
            strength = largest_strength(lambda s: zcdp(s * factor), self._nano_share)
        else:
            strength = largest_strength(lambda s: epsilon_for(event(s), budget), budget.epsilon)
        return strength, event(strength)


def _exponential(budget: Budget, delta: float, pools: int, per_expert: int) -> ExamplesPlan:
    """Experts that keep their text: each unit pays for what it reveals, in one text per label."""
    if per_expert > 1 or budget.adjacency is Adjacency.REPLACE_ONE:
        raise ConfigurationError(
            "the exponential method charges each unit for what it reveals: it needs add-or-remove "
            "adjacency and per_expert=1"
        )
    rho = epsilon_to_rho(budget.epsilon, budget.delta)
    share = Budget(budget.epsilon, budget.delta)
    utility = Surplus()
    strength = strength_for(share, SHARES.pivotal_tokens_of_examples * pools, utility.range)
    return ExamplesPlan(
        method="exponential",
        mechanism=ExponentialMechanism(utility, strength),
        sampler=None,
        fresh=False,
        event=ZeroConcentrated(rho),
        draws=1,
        pools=pools,
        epsilon=budget.epsilon,
        true_epsilon=budget.epsilon,
        delta=delta,
        token_rho=None,
        rho=rho,
    )
