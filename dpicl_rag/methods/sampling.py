"""Privacy by sampling: predictions of many Poisson-subsampled contexts, summed, with noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from dpicl_rag.accounting import _check
from dpicl_rag.accounting.stability import DIRECT, Adjacency, Stability
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import noisy_argmax
from dpicl_rag.methods.base import Calibrated, Drawing, Views
from dpicl_rag.methods.calibration import subsampled_sigma
from dpicl_rag.methods.experts import the_view
from dpicl_rag.methods.layouts import Layout, Subsampled
from dpicl_rag.methods.subsampled_sum import SubsampledSum


@dataclass(frozen=True)
class Sampling(Drawing):
    """The label with the largest sum of probabilities over subsampled contexts, after noise.

    Described as privacy by sampling in Romijnders et al. 2026, after Wu et al. 2024: every
    context is a Poisson subsample of the units, 100 of them; the model's predictions are averaged,
    Gaussian noise is added, and the best label comes out. Sums stand for averages here.

    **Adjacency and charge.** ``SubsampledSum``, a mixture of Gaussians, under add-or-remove
    adjacency for units that are in the corpus as they are; composed by privacy loss
    distributions. A unit that joins one context in ten still moves about ten predictions, so the
    noise is large: the charge says how much of the sampling is lost to that. Coins must be
    fresh for every query where queries are to compose.

    Attributes:
        contexts: Number of contexts.
        rate: Probability with which a unit joins one of them.
        name: Its name in the registry.
    """

    contexts: int = 100
    rate: float = 0.1
    name: str = "sampling"

    paper = "privacy by sampling in Romijnders et al. 2026, after Wu et al. 2024"
    private = True

    def __post_init__(self) -> None:
        Subsampled(self.contexts, self.rate)

    @property
    def parameters(self) -> Mapping[str, float | int | str]:
        """Number of contexts and sampling rate."""
        return {"contexts": self.contexts, "rate": self.rate}

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """One row per context."""
        _check.count("experts", experts)
        return (Subsampled(self.contexts, self.rate),)

    def calibrate(
        self,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
        *,
        stability: Stability = DIRECT,
        queries: int = 1,
    ) -> Calibrated:
        """Standard deviation for the budget; see ``Method.calibrate``."""
        if adjacency is Adjacency.REPLACE_ONE or stability != DIRECT:
            raise ConfigurationError(
                "Poisson subsampling amplifies under add-or-remove adjacency, for units that "
                "change no other unit; use another method"
            )
        sigma = subsampled_sigma(self.contexts, self.rate, epsilon, delta, queries)
        event = SubsampledSum(self.contexts, self.rate, sigma)
        return Calibrated(sigma, event, adjacency, epsilon, delta, queries)

    def distribution(self, views: Views, calibrated: Calibrated) -> torch.Tensor:
        """Exact distribution given the coins, float64 [labels]; see ``Method.distribution``."""
        rows = the_view(views, Subsampled)
        return noisy_argmax.distribution(rows.exp().sum(dim=0), calibrated.parameter)
