"""Methods without privacy, for comparison. Nothing here is part of the guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from dpicl_rag import _validate
from dpicl_rag.accounting import Budget
from dpicl_rag.mechanisms.selection import ChargedAlike
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import LogProb, Utility
from dpicl_rag.methods.base import (
    Calibrated,
    Layout,
    Method,
    OnePrompt,
    Parameters,
    ZeroShot,
    one_or_groups,
)
from dpicl_rag.methods.votes import VOTE

BaselineName = Literal["zero-shot", "k-shot", "soft", "hard"]

_UNCLIPPED = LogProb(1000.0)
"""Less likely than this is impossible; experts are added by a utility of finite range."""


@dataclass(frozen=True, slots=True)
class Best(ChargedAlike):
    """The candidate with the largest sum, without noise; no budget can pay for it.

    Attributes:
        utility: What an expert says about each candidate.
        rho: Infinite.
        delta: See ``Mechanism``.
    """

    utility: Utility
    rho: float = math.inf
    delta: float = 1.0

    def distribution(self, step: Step) -> torch.Tensor:
        """One on the best candidate, or equal parts on those that tie; float64 [candidates]."""
        sums = step.weighted_sum(self.utility, 1.0)
        best = (sums == sums.max()).double()
        return best / best.sum()


@dataclass(frozen=True)
class NotPrivate(Method):
    """The best label without noise; ties are broken at random.

    The first two kinds are those of Brown et al. 2020, the others are the conditionally independent
    ones of Romijnders et al. 2026, section 4.1.

    Attributes:
        name: ``zero-shot``: the bare model, which no example touches (it is private, trivially).
            ``k-shot``: all examples in one prompt. ``soft``: the product of one expert per
            example, clipped only where a label is impossible. ``hard``: the most votes of one
            expert per example.
        group_size: Examples of an expert of the last two on average; above 1, in random groups.
        rate: Probability with which an example joins a query of the last two.
    """

    name: BaselineName
    group_size: int = 1
    rate: float = 1.0

    private = False

    def __post_init__(self) -> None:
        _validate.count("group_size", self.group_size)
        _validate.rate("rate", self.rate)

    @property
    def parameters(self) -> Parameters:
        """Group size and sampling rate, where there are experts."""
        if self.name not in ("soft", "hard"):
            return {}
        return {"group_size": self.group_size, "rate": self.rate}

    @property
    def rows(self) -> type[Layout]:
        """One kind of row."""
        return type(self._layout(1))

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """One kind of row."""
        _validate.count("experts", experts)
        return (self._layout(experts),)

    def _layout(self, experts: int) -> Layout:
        if self.name == "zero-shot":
            return ZeroShot()
        if self.name == "k-shot":
            return OnePrompt()
        return one_or_groups(experts, self.group_size, self.rate)

    def calibrate(self, budget: Budget) -> Calibrated:
        """No noise and no charge, whatever is asked for."""
        utility: Utility = VOTE if self.name == "hard" else _UNCLIPPED
        return Calibrated(Best(utility), 0.0, None, budget)
