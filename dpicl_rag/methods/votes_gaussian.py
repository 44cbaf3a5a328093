"""DP-ICL: report noisy max on hard votes with Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from dpicl_rag.accounting import _check
from dpicl_rag.accounting.events import Event, Gaussian, PoissonSubsampled
from dpicl_rag.accounting.stability import DIRECT, Adjacency, Stability
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import noisy_argmax
from dpicl_rag.methods.base import Calibrated, Drawing, Views
from dpicl_rag.methods.calibration import gaussian_multiplier
from dpicl_rag.methods.experts import expert_rows, stage, the_view
from dpicl_rag.methods.layouts import Groups, Layout, OneEach
from dpicl_rag.methods.sensitivity import SQRT_2, votes_l2
from dpicl_rag.methods.votes import tallies


@dataclass(frozen=True)
class VotesGaussian(Drawing):
    """The label with the most votes, after Gaussian noise on every count.

    Wu, Panda, Wang, Mittal 2024, "Privacy-Preserving In-Context Learning for Large Language
    Models" (DP-ICL), and Panda et al. 2023, "Differentially Private In-Context Learning": the
    context is cut into subsets of k examples, each subset votes.

    **Adjacency and charge.** A vote that arrives moves the counts by 1 in L2, a changed one by
    sqrt(2): in a group, or under replacement. The argmax costs at most the Gaussian mechanism on
    the counts, with noise multiplier sigma over that number, by its exact formula (Balle, Wang
    2018); many queries compose exactly. With ``rate`` below 1 every unit joins each query by its
    own coin, which amplifies under add-or-remove adjacency alone; the charge is then a privacy
    loss distribution. For the argmax of two labels the charge is loose by sqrt(2) in sigma; with
    many labels it is met.

    Attributes:
        group_size: Examples of a subset (k-shot); above 1, units join random groups.
        rate: Public probability with which a unit joins a query; needs ``group_size`` 1.
        name: Its name in the registry.
    """

    group_size: int = 1
    rate: float = 1.0
    name: str = "votes-gaussian"

    paper = "Wu et al. 2024, Panda et al. 2023 (DP-ICL)"
    private = True

    def __post_init__(self) -> None:
        _check.count("group_size", self.group_size)
        OneEach(self.rate)
        if self.rate < 1 and self.group_size > 1:
            raise ConfigurationError("a rate below 1 needs one expert per unit (group_size 1)")

    @property
    def parameters(self) -> Mapping[str, float | int | str]:
        """Group size and sampling rate."""
        return {"group_size": self.group_size, "rate": self.rate}

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """One row per expert."""
        if self.rate < 1:
            return (OneEach(self.rate),)
        return (expert_rows(experts, self.group_size),)

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
        reach = votes_l2(stability.then(stage(self.group_size)), adjacency)
        return self._at(reach, reach, epsilon, delta, adjacency, stability, queries)

    def published(
        self,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
        *,
        stability: Stability = DIRECT,
        queries: int = 1,
    ) -> Calibrated | None:
        """As published: sensitivity sqrt(2) under any adjacency.

        One query without subsampling by the classical formula ``sigma = 2 sqrt(log(1.25 / delta))
        / epsilon``, proven for epsilon below 1; otherwise by privacy loss distributions. None
        where one unit changes more than one vote.
        """
        reach = votes_l2(stability.then(stage(self.group_size)), adjacency)
        if reach > SQRT_2 * (1 + 1e-12):
            return None
        if queries > 1 or self.rate < 1:
            return self._at(
                SQRT_2, reach, epsilon, delta, adjacency, stability, queries, "published"
            )
        sigma = 2 * math.sqrt(math.log(1.25 / _check.probability("delta", delta)))
        sigma /= _check.positive("epsilon", epsilon)
        return Calibrated(
            sigma, Gaussian(sigma / reach), adjacency, epsilon, delta, queries, "published"
        )

    def distribution(self, views: Views, calibrated: Calibrated) -> torch.Tensor:
        """Exact output distribution, float64 [labels]; see ``Method.distribution``."""
        experts = the_view(views, OneEach if self.group_size == 1 else Groups)
        return noisy_argmax.distribution(tallies(experts), calibrated.parameter)

    def _at(
        self,
        assumed: float,
        reach: float,
        epsilon: float,
        delta: float,
        adjacency: Adjacency,
        stability: Stability,
        queries: int,
        accounting: str = "exact",
    ) -> Calibrated:
        """Noise for an assumed sensitivity; the charge is for the true one."""
        if self.rate < 1 and (adjacency is Adjacency.REPLACE_ONE or stability != DIRECT):
            raise ConfigurationError(
                "Poisson subsampling amplifies under add-or-remove adjacency, for units that "
                "change no expert but their own; use rate 1"
            )
        multiplier = gaussian_multiplier(epsilon, delta, self.rate, queries)
        event: Event = Gaussian(multiplier * (assumed / reach))
        if self.rate < 1:
            event = PoissonSubsampled(self.rate, event)
        return Calibrated(
            multiplier * assumed, event, adjacency, epsilon, delta, queries, accounting
        )
