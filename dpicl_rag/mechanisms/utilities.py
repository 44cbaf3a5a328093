"""Bounded utilities: one expert's scores of every token, and the public base measure.

Every utility is a pure function of one expert's log-probabilities and of the public row. Its
range ``R`` bounds ``max_y f(y) - min_y f(y)`` for every input, which is all that the privacy proof
uses (docs/privacy.md, "How a token is drawn").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

_SURE = 1 - 1e-6  # so that odds are finite


class Utility(Protocol):
    """A bounded utility and its public base measure."""

    @property
    def range(self) -> float:
        """``R``: the largest possible ``max_y f(y) - min_y f(y)``."""
        ...

    def __call__(self, experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
        """Utilities of every candidate under every expert.

        Args:
            experts: Log-probabilities [n, candidates].
            public: Log-probabilities of the public row [candidates].

        Returns:
            f [n, candidates], within ``R`` of each other along the last dimension, but for the
            rounding of ``R`` itself: a ``Step`` cuts what is added at ``R`` in float64.
        """
        ...

    def base(self, public: torch.Tensor) -> torch.Tensor:
        """``log b(y)`` up to a constant, float64 [candidates]; depends on public scores alone."""
        ...


class _PublicPower:
    """A base measure of ``p_0`` to a public power; a power of 0 is uniform."""

    __slots__ = ()
    public_power: float

    def base(self, public: torch.Tensor) -> torch.Tensor:
        """``log b(y)``, float64 [candidates]."""
        if self.public_power == 0.0:  # uniform on impossible tokens too
            return torch.zeros_like(public, dtype=torch.float64)
        return self.public_power * public.double()


@dataclass(frozen=True, slots=True)
class LogProb(_PublicPower):
    """``clip(log p_i(y), -C, 0)`` over a uniform base: Private PoEtry, section 3.

    Clipping saturates. The paper's text says that values below ``-C`` become zero, which would
    make the least likely tokens the best ones.

    Attributes:
        clip: ``C``.
        public_power: Exponent on ``p_0`` in the base measure; 0 makes it uniform, as published.
    """

    clip: float = 4.0
    public_power: float = 0.0

    @property
    def range(self) -> float:
        """``C``."""
        return self.clip

    def __call__(self, experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
        """Clipped log-probabilities [n, candidates]."""
        return experts.clamp(min=-self.clip, max=0.0)


@dataclass(frozen=True, slots=True)
class LogRatio(_PublicPower):
    """``clip(log p_i(y) - log p_0(y), -c, c)`` over ``p_0``: a contrastive product of experts.

    With the mean in place of the sum this is InvisibleInk.
    """

    clip: float = 1.0
    public_power: float = 1.0

    @property
    def range(self) -> float:
        """``2c``."""
        return 2.0 * self.clip

    def __call__(self, experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
        """Clipped log ratios [n, candidates]."""
        # Two impossible tokens make inf - inf; the document said nothing new about them.
        return torch.nan_to_num(experts - public, nan=0.0).clamp(-self.clip, self.clip)


@dataclass(frozen=True, slots=True)
class Surplus(_PublicPower):
    """``max(p_i^g(y) / sum p_i^g - p_0(y), 0)`` over ``p_0``: soft votes for what is new.

    Attributes:
        expert_power: ``g``, sharpens each expert before it votes. A function of the unit alone,
            so it costs nothing by itself.
        public_power: Exponent on ``p_0`` in the base measure (a public temperature).
    """

    expert_power: float = 2.0
    public_power: float = 1.5

    @property
    def range(self) -> float:
        """One: a surplus lies in [0, 1]."""
        return 1.0

    def __call__(self, experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
        """Surplus probabilities [n, candidates]."""
        sharpened = torch.softmax(self.expert_power * experts, dim=-1)
        return sharpened.sub_(public.exp()).clamp_(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Sufficient:
    """Another utility of 0 to 1, scaled down by each expert to what its favourite token needs.

    A token that is ``s`` nats unlikely to the public model is drawn where all experts together add
    ``s`` and a little more. An expert knows its own favourite and ``s``, and that about so many
    others were found: it says no more than its share, and pays for no more. The scale follows from
    the unit's own row, the public row and public numbers, so this is a utility like any other.

    Attributes:
        utility: What an expert would say at full strength.
        reach: Nats that the experts found add together at full strength.
        cheap: Nats that they add at a strength that many draws pay for.
    """

    utility: Utility
    reach: float
    cheap: float

    # Nats beyond even odds for the favourite, and the part of the experts that must agree on it,
    # as far as that is cheap.
    _BEYOND = 4.0
    _AGREEING = 0.6

    @property
    def range(self) -> float:
        """Range of the utility."""
        return self.utility.range

    def __call__(self, experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
        """Scaled utilities [n, candidates]."""
        found = self.utility(experts, public)
        most, favourite = found.max(dim=-1, keepdim=True)
        log_p = public[favourite]
        # The favourite's odds, so that one that the public model all but gives needs nothing.
        need = (self._BEYOND - log_p + torch.log1p(-log_p.exp().clamp(max=_SURE))).clamp(min=0.0)
        generous = (need / self._AGREEING).clamp(max=self.cheap)
        enough = torch.maximum(need, generous) / max(self.reach, torch.finfo(need.dtype).tiny)
        # A favourite of no surplus at all adds nothing, however it is scaled.
        scale = (enough / most.clamp(min=torch.finfo(most.dtype).tiny)).clamp(0.0, 1.0)
        return found.mul_(scale)

    def base(self, public: torch.Tensor) -> torch.Tensor:
        """Base measure of the utility."""
        return self.utility.base(public)


@dataclass(frozen=True, slots=True)
class Vote(_PublicPower):
    """One for the expert's most likely token, else zero: the votes that DP-ICL counts.

    Attributes:
        public_power: Exponent on ``p_0`` in the base measure; 0 makes it uniform, as published.
    """

    public_power: float = 1.0

    @property
    def range(self) -> float:
        """One."""
        return 1.0

    def __call__(self, experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
        """One-hot votes [n, candidates]."""
        votes = torch.zeros_like(experts)
        return votes.scatter_(-1, experts.argmax(dim=-1, keepdim=True), 1.0)


def likeliest(public: torch.Tensor, count: int) -> torch.Tensor:
    """The ``count`` likeliest candidates of the public row, and of nothing else: int64 [K].

    Args:
        public: Log-probabilities of the public row [candidates].
        count: K; all candidates where there are fewer.
    """
    return public.topk(min(count, len(public))).indices


@dataclass(frozen=True, slots=True)
class Likeliest:
    """Another utility among the ``count`` likeliest tokens of the public row.

    Attributes:
        utility: The utility.
        count: How many candidates there are. Public, and so is which ones: both follow from the
            public row alone, and the cut is made before experts are added up.
    """

    utility: Utility
    count: int

    @property
    def range(self) -> float:
        """Range of the utility."""
        return self.utility.range

    def __call__(self, experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
        """Utilities [n, candidates]; outside the likeliest tokens each expert's own lowest value.

        Only candidates can be drawn, so only they count towards a range.
        """
        found, outside = self.utility(experts, public), self._outside(public)
        lowest = found.masked_fill(outside, torch.inf).amin(dim=-1, keepdim=True)
        return torch.where(outside, lowest, found)

    def base(self, public: torch.Tensor) -> torch.Tensor:
        """Base measure of the utility on the likeliest tokens, and no mass on the others."""
        return self.utility.base(public).masked_fill(self._outside(public), -torch.inf)

    def _outside(self, public: torch.Tensor) -> torch.Tensor:
        outside = torch.ones_like(public, dtype=torch.bool)
        outside[likeliest(public, self.count)] = False
        return outside


@dataclass(frozen=True, slots=True)
class Probability:
    """``p_i(y)`` itself, over a uniform base: soft votes of methods that add noise to their sum."""

    @property
    def range(self) -> float:
        """One."""
        return 1.0

    def __call__(self, experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
        """Probabilities [n, candidates]."""
        return experts.exp()

    def base(self, public: torch.Tensor) -> torch.Tensor:
        """Uniform on the candidates."""
        return torch.zeros_like(public, dtype=torch.float64)
