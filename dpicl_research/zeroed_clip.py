"""Private PoEtry with its clip as it is written: what is outside of ``[-C, 0]`` becomes zero.

Romijnders et al. 2026, section 3.1 and appendix A. A log-probability of 0 is that of a sure label.
So one that an expert gives less than ``e^-C`` scores as if it were sure of it, and one that it
gives just ``e^-C`` scores least. ``poe`` keeps such values at ``-C``. They lie in ``[-C, 0]``
either way: the charge is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dpicl_rag.mechanisms.utilities import LogProb
from dpicl_rag.methods.product_of_experts import ProductOfExperts


@dataclass(frozen=True, slots=True)
class ZeroedLogProb(LogProb):
    """``log p_i(y)`` where it is ``-C`` or more, else 0."""

    def __call__(self, experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
        """Log-probabilities [n, candidates], those below ``-C`` as 0."""
        return torch.where(experts < -self.clip, 0.0, experts).clamp(max=0.0)


@dataclass(frozen=True)
class ZeroedProduct(ProductOfExperts):
    """``poe`` with `ZeroedLogProb`; without a prior."""

    name: str = "poe-zeroed"

    def _utility(self) -> LogProb:
        return ZeroedLogProb(self.clip)
