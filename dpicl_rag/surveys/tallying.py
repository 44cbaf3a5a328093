"""The draw of a tally: opinions of units, counted and paid for, with noise on each count."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from dpicl_rag.answering.experts import Gathered
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.mechanisms.histogram import Histogram
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.surveys.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Counted:
    """Noisy counts as they were released, and what they cost. Public.

    Attributes:
        noisy: One for each label.
        noise: On each.
        rate: Public probability with which a unit was asked.
        epsilon: All counts together are (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho that they cost any unit at most.
        complete: Whether every unit could pay, by public numbers; one that could not was left out.
    """

    noisy: Sequence[int]
    noise: DiscreteGaussian
    rate: float
    epsilon: float
    delta: float
    rho: float
    complete: bool

    @property
    def estimates(self) -> list[Estimate]:
        """One for each label."""
        return [Estimate.of(one, self.noise, self.rate) for one in self.noisy]

    @property
    def total(self) -> Estimate:
        """Of their sum, whose noise is that of all of them."""
        noise = DiscreteGaussian(math.sqrt(len(self.noisy)) * self.noise.sigma)
        return Estimate.of(sum(self.noisy), noise, self.rate)

    @property
    def cost(self) -> tuple[float, float, float, bool]:
        """Epsilon, delta and rho, and whether every unit could pay."""
        return self.epsilon, self.delta, self.rho, self.complete


def noisy_counts(
    gathered: Gathered[Histogram], said: Callable[[], torch.Tensor], randomness: Randomness
) -> list[int]:
    """How many units say each label, with noise; paid for, and the account is closed in any case.

    Args:
        gathered: The units, and how they pay.
        said: Reads them: the labels that each says, bool [n, labels]. Private.
        randomness: Where the noise comes from.

    Raises:
        ConfigurationError: No unit could ever pay.
    """
    price = gathered.mechanism.rho
    try:
        if not gathered.spend.can_count(price):
            raise ConfigurationError(
                f"it costs a unit rho {price:.4g}, and the ledger's budget lets a unit spend less; "
                "raise the corpus's unit budget with `dpicl-rag budget set`, or lower epsilon"
            )
        with enough_memory():
            votes = said()
        # A unit that says nothing moves no count.
        able = gathered.spend.pay_votes(price, votes.any(dim=-1), 0.0)
        counts = votes[able].sum(dim=0).tolist()
        return gathered.mechanism.draw(counts, randomness)
    finally:
        gathered.close()
