"""What a mechanism draws from: the public row, and sums over experts. Never the experts' rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch

from dpicl_rag.mechanisms.utilities import Utility

# Experts whose utilities are held at once; a slice stays in the processor's cache.
_SLICE = 16


class Step(Protocol):
    """One place of an answer, or one question's labels, as an engine computed it.

    A step may live on several machines: what leaves them is a sum over their experts and a number
    for each expert.
    """

    @property
    def public(self) -> torch.Tensor:
        """Log-probabilities of the public row, which was read by itself [candidates]."""
        ...

    def ranges(self, utility: Utility) -> torch.Tensor:
        """Realised range ``max_y f_i(y) - min_y f_i(y)`` of every expert, float64 [n]."""
        ...

    def weighted_sum(self, utility: Utility, weights: torch.Tensor | float) -> torch.Tensor:
        """``sum_i w_i f_i(y)``, in float64 whatever the engine's dtype.

        Args:
            utility: What an expert says about each candidate.
            weights: Float64 [n], or one number for all experts.

        Returns:
            Float64 [candidates]; zeros where there are no experts.
        """
        ...

    def corrected(self, priors: Step) -> Step:
        """The same experts with a prior taken out of each, and normalised again.

        Args:
            priors: The same experts where nothing is asked, from the same engine.
        """
        ...


class DenseStep:
    """A step of one process: rows of log-probabilities in memory.

    Args:
        public: The public row [candidates].
        experts: Rows of the experts [n, candidates].
    """

    # No label is so unlikely that a difference of infinities could come up.
    _FLOOR = -200.0

    def __init__(self, public: torch.Tensor, experts: torch.Tensor) -> None:
        self.public = public
        self.experts = experts

    def __repr__(self) -> str:
        return "DenseStep(<private>)"

    @property
    def rows(self) -> torch.Tensor:
        """The public row, then the experts [n + 1, candidates]; a copy. Not for mechanisms."""
        return torch.cat([self.public[None], self.experts])

    def ranges(self, utility: Utility) -> torch.Tensor:
        """See `Step.ranges`."""
        found = [self.public.new_zeros(0, dtype=torch.float64)]
        for utilities in self._utilities(utility):
            low, high = torch.aminmax(utilities, dim=-1)
            found.append(high.double() - low.double())
        return torch.cat(found)

    def weighted_sum(self, utility: Utility, weights: torch.Tensor | float) -> torch.Tensor:
        """See `Step.weighted_sum`."""
        total = torch.zeros_like(self.public, dtype=torch.float64)
        if not isinstance(weights, torch.Tensor):
            weights = total.new_full((len(self.experts),), weights)
        # Utilities are computed anew for the ranges and for the sum: to keep those of all experts
        # would take as much memory as their log-probabilities, and saves little time or none.
        own = iter(torch.split(weights.double(), _SLICE))
        for utilities in self._utilities(utility):
            total += next(own) @ utilities.double()
        return total

    def corrected(self, priors: Step) -> DenseStep:
        """See `Step.corrected`."""
        assert isinstance(priors, DenseStep)
        excess = self.experts.clamp(min=self._FLOOR) - priors.experts.clamp(min=self._FLOOR)
        return DenseStep(self.public, torch.log_softmax(excess, dim=-1))

    def _utilities(self, utility: Utility) -> Iterator[torch.Tensor]:
        """Utilities of some experts at a time; an expert that says no number is neutral."""
        # Splitting no rows gives one empty slice, which has no least utility.
        for experts in torch.split(self.experts, _SLICE) if len(self.experts) else ():
            found = utility(experts, self.public)
            wrong = (experts + found).isnan().any(dim=-1, keepdim=True)
            yield found.masked_fill_(wrong, 0.0)
