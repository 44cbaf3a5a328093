"""Steps that mechanisms draw from: the public row, and sums over experts. Never their rows.

Experts are added as whole numbers of a public unit, so the sum has the same bits in every order,
with every sharding, and for every size of a slice. What an expert adds is measured from its own
lowest utility, which moves all scores alike and no distribution, and is cut at what it is charged
for: charges are exact, whatever a float holds in place of a clip bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

import torch

from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.mechanisms.utilities import Utility

# Experts whose utilities are held at once; a slice stays in the processor's cache.
_SLICE = 16

_BITS = 40
"""An expert adds less than 2^40 units: 64 bits have room for eight million experts."""


class Step(Protocol):
    """One place of an answer, or one question's labels, as an engine computed it.

    A step may live on several machines: what leaves them is a sum over their experts and a number
    for each expert.
    """

    @property
    def public(self) -> torch.Tensor:
        """Log-probabilities of the public row, which was read by itself [candidates]."""
        ...

    def ranges(self, utility: Utility, strength: float) -> torch.Tensor:
        """Realised range ``strength * (max_y f_i(y) - min_y f_i(y))`` of every expert.

        Args:
            utility: What an expert says about each candidate.
            strength: Factor on all experts.

        Returns:
            Float64 [n], from 0 to ``strength * utility.range``. An expert whose row is no
            distribution has range 0: it adds nothing.
        """
        ...

    def weighted_sum(
        self, utility: Utility, strength: float, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``sum_i w_i * strength * (f_i(y) - min f_i)``, each expert in whole ``grid`` units.

        The realised range of what expert i adds is at most ``w_i * ranges_i``, as float64 rounds
        that product.

        Args:
            utility: What an expert says about each candidate.
            strength: Factor on all experts.
            weights: Factor on each expert, float64 [n], 0 to 1; None for one each.

        Returns:
            Float64 [candidates]; zeros where there are no experts.
        """
        ...

    def log_probs(self, candidate: int) -> torch.Tensor:
        """Log-probability of one candidate in every expert's row.

        Returns:
            Float64 [n]; -inf where a row is no distribution.
        """
        ...

    def corrected(self, priors: Step) -> Step:
        """The same experts with a prior taken out of each, and normalised again.

        Args:
            priors: The same experts where nothing is asked, from the same engine.
        """
        ...


@runtime_checkable
class DistantStep(Step, Protocol):
    """A step that is asked over a wire: what is not needed at once comes with the next call."""

    def log_probs_later(self, candidate: int) -> Callable[[], torch.Tensor]:
        """``log_probs``, to be called for when it is needed; the step need not be kept."""
        ...


def rows_of(step: Step) -> torch.Tensor:
    """Every row of a step, the public one first [n + 1, candidates]. Not for mechanisms.

    For few candidates: where a step is spread over machines, each is asked for.
    """
    if isinstance(step, DenseStep):
        return step.rows
    candidates = range(len(step.public))
    if isinstance(step, DistantStep):
        later = [step.log_probs_later(candidate) for candidate in candidates]
        own = [found() for found in later]
    else:
        own = [step.log_probs(candidate) for candidate in candidates]
    return torch.cat([step.public.double()[None], torch.stack(own, dim=1)])


def grid(utility: Utility, strength: float) -> float:
    """The unit in which experts are added: 2^-40, or more for draws that reach further than 1.

    Raises:
        ConfigurationError: The utility has no bound.
    """
    reach = strength * utility.range
    if not math.isfinite(reach):
        raise ConfigurationError("experts are added up by a utility of finite range only")
    return math.ldexp(1.0, max(0, math.frexp(reach)[1]) - _BITS)


class DenseStep:
    """A step of one process: rows of log-probabilities in memory.

    Args:
        public: The public row [candidates].
        experts: Rows of the experts [n, candidates].

    Raises:
        ModelError: The public row is no distribution.
    """

    # No label is so unlikely that a difference of infinities could come up.
    _FLOOR = -200.0

    def __init__(self, public: torch.Tensor, experts: torch.Tensor) -> None:
        if not bool(_sound(public)):
            raise ModelError(
                "the model's prediction without any document is no distribution (not a number, or "
                "nothing is possible); check the model's weights and dtype"
            )
        self.public = public
        self.experts = experts

    def __repr__(self) -> str:
        return "DenseStep(<private>)"

    @property
    def rows(self) -> torch.Tensor:
        """The public row, then the experts [n + 1, candidates]; a copy. Not for mechanisms."""
        return torch.cat([self.public[None], self.experts])

    def ranges(self, utility: Utility, strength: float) -> torch.Tensor:
        """Realised ranges, see `Step.ranges`."""
        found = [self.public.new_zeros(0, dtype=torch.float64)]
        found += [ranges[:, 0] for _, ranges in self._slices(utility, strength)]
        return torch.cat(found)

    def weighted_sum(
        self, utility: Utility, strength: float, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Weighted sum, see `Step.weighted_sum`."""
        _, total = self.whole_sum(utility, strength, weights)
        return total.double() * grid(utility, strength)

    def whole_sum(
        self, utility: Utility, strength: float, weights: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """``ranges``, and ``weighted_sum`` in units of ``grid``: int64 [candidates].

        Whole numbers of several steps add up to the sum over the experts of all of them, exactly.
        """
        unit = grid(utility, strength)
        found = [self.public.new_zeros(0, dtype=torch.float64)]
        total = torch.zeros_like(self.public, dtype=torch.int64)
        if weights is None:
            weights = total.new_ones(len(self.experts), dtype=torch.float64)
        # Utilities are computed anew for the ranges and for the sum: to keep those of all experts
        # would take as much memory as their log-probabilities, and saves little time or none.
        own = iter(torch.split(weights[:, None], _SLICE))
        for utilities, ranges in self._slices(utility, strength):
            weight = next(own)
            parts = utilities.double().mul_(weight * strength / unit)
            parts.clamp_max_(weight * ranges / unit).floor_()
            # Whole numbers below 2^53: a slice's sum is exact in float64.
            total += parts.sum(dim=0).long()
            found.append(ranges[:, 0])
        return torch.cat(found), total

    def log_probs(self, candidate: int) -> torch.Tensor:
        """Log-probabilities, see `Step.log_probs`."""
        own = self.experts[:, candidate].double()
        if not len(own):
            return own
        return own.masked_fill(~_sound(self.experts)[:, 0], -torch.inf)

    def corrected(self, priors: Step) -> DenseStep:
        """Corrected step, see `Step.corrected`."""
        assert isinstance(priors, DenseStep)
        excess = self.experts.clamp(min=self._FLOOR) - priors.experts.clamp(min=self._FLOOR)
        sound = _sound(self.experts) & _sound(priors.experts)
        excess = excess.masked_fill(~sound, torch.nan)  # clamped, it would pass for a row
        return DenseStep(self.public, torch.log_softmax(excess, dim=-1))

    def _slices(
        self, utility: Utility, strength: float
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Some experts at a time: utilities above their lowest, and scaled ranges [some, 1].

        Both are zero for an expert whose row is no distribution. Bounds hold for what is returned
        here, since a float may hold a clip bound only as a larger number.
        """
        reach = strength * utility.range
        public = _at_least_float32(self.public)
        # Splitting no rows gives one empty slice, which has no least utility.
        for experts in torch.split(self.experts, _SLICE) if len(self.experts) else ():
            found = utility(_at_least_float32(experts), public)
            found = found - found.amin(dim=-1, keepdim=True)
            span = found.amax(dim=-1, keepdim=True)
            neutral = ~(_sound(experts) & span.isfinite())
            ranges = strength * span.masked_fill(neutral, 0.0).double()
            yield found.masked_fill_(neutral, 0.0), ranges.clamp_max_(reach)


def _sound(rows: torch.Tensor) -> torch.Tensor:
    """Flags of rows that are distributions: no NaN, no +inf, and something is possible.

    Single impossible tokens are fine. Bool [..., 1].
    """
    return rows.amax(dim=-1, keepdim=True).isfinite()


def _at_least_float32(rows: torch.Tensor) -> torch.Tensor:
    return rows.to(torch.promote_types(rows.dtype, torch.float32))
