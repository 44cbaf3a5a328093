"""A step whose experts are spread over workers."""

from __future__ import annotations

from collections.abc import Callable

import torch

from dpicl_rag.language_models.ray.commands import Corrected, Place, StepName
from dpicl_rag.language_models.ray.step_requests import LogProbs, SpreadRows, Summed
from dpicl_rag.mechanisms.step import Step, grid
from dpicl_rag.mechanisms.utilities import Utility


class RayStep:
    """See `Step`. Asks its workers for what did not come with it.

    Args:
        public: The public row [candidates], computed by this process.
        rows: The rows that it is of.
        name: What workers know it by.
        corrects: Where it is a corrected step, this one and that of the priors.
    """

    def __init__(
        self,
        public: torch.Tensor,
        rows: SpreadRows,
        name: StepName,
        corrects: tuple[RayStep, ...] = (),
    ) -> None:
        self.public = public
        self.name = name
        self.rows = rows
        self.sums: dict[tuple[Utility, float], Summed] = {}
        self.said: dict[int, LogProbs] = {}
        self._corrects = corrects  # workers keep them as long as this is

    def __repr__(self) -> str:
        return "RayStep(<private>)"

    def __del__(self) -> None:
        if isinstance(self.name, Place):
            self.rows.dropped.append(self.name)

    def ranges(self, utility: Utility, strength: float) -> torch.Tensor:
        """See `Step.ranges`."""
        return self._summed(utility, strength).ranges().to(self.public.device)

    def weighted_sum(
        self, utility: Utility, strength: float, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """See `Step.weighted_sum`."""
        unit = grid(utility, strength)
        summed = self._summed(utility, strength)
        if weights is not None and bool((weights != 1).any()):
            asked = self.rows, self.name, utility, strength, self._others
            summed = Summed(*asked, weights=weights, plain=summed)
        return summed.total(len(self.public)).to(self.public.device).double() * unit

    def log_probs(self, candidate: int) -> torch.Tensor:
        """See `Step.log_probs`."""
        return self.log_probs_later(candidate)()

    def log_probs_later(self, candidate: int) -> Callable[[], torch.Tensor]:
        """See `DistantStep`."""
        if candidate in self.said:
            return self.said[candidate]
        wanted = LogProbs(self.rows, self.name, candidate, self._others)
        self.rows.wanted.append(wanted)
        return wanted

    def corrected(self, priors: Step) -> RayStep:
        """See `Step.corrected`."""
        assert isinstance(priors, RayStep)
        assert isinstance(self.name, Place)
        assert isinstance(priors.name, Place)
        name = Corrected(self.name, priors.name)
        return RayStep(self.public, self.rows, name, (self, priors))

    @property
    def _others(self) -> tuple[SpreadRows, ...]:
        """Rows that it needs beside its own."""
        return tuple(step.rows for step in self._corrects[1:])

    def _summed(self, utility: Utility, strength: float) -> Summed:
        way = utility, strength
        self.rows.usual = way
        if way not in self.sums:
            self.sums[way] = Summed(self.rows, self.name, *way, self._others)
        return self.sums[way]
