"""Methods without privacy, for comparison. Nothing here is part of the guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from dpicl_rag.accounting import _check
from dpicl_rag.accounting.stability import DIRECT, Adjacency, Stability
from dpicl_rag.methods.base import Calibrated, Drawing, Views
from dpicl_rag.methods.layouts import Layout, OneEach, Together, ZeroShot
from dpicl_rag.methods.votes import tallies

Kind = Literal["zero-shot", "k-shot", "soft", "hard"]

_PAPERS = {
    "zero-shot": "Brown et al. 2020",
    "k-shot": "Brown et al. 2020",
    "soft": "Romijnders et al. 2026, section 4.1 (conditionally independent, soft)",
    "hard": "Romijnders et al. 2026, section 4.1 (conditionally independent, hard)",
}


@dataclass(frozen=True)
class NotPrivate(Drawing):
    """The best label without noise; ties are broken at random.

    Attributes:
        name: ``zero-shot``: the bare model, which no example touches (it is private, trivially).
            ``k-shot``: all examples in one prompt. ``soft``: the product of one expert per
            example, not clipped. ``hard``: the most votes of one expert per example.
    """

    name: Kind

    private = False

    @property
    def paper(self) -> str:
        """Where it was published."""
        return _PAPERS[self.name]

    @property
    def parameters(self) -> Mapping[str, float | int | str]:
        """None."""
        return {}

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """One kind of row."""
        _check.count("experts", experts)
        return (self._layout(),)

    def calibrate(
        self,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
        *,
        stability: Stability = DIRECT,
        queries: int = 1,
    ) -> Calibrated:
        """No noise and no charge, whatever is asked for."""
        return Calibrated(0.0, None, adjacency, epsilon, delta, queries)

    def distribution(self, views: Views, calibrated: Calibrated) -> torch.Tensor:
        """One on the best label, or equal parts on those that tie; float64 [labels]."""
        rows = views[self._layout()].double()
        scores = tallies(rows) if self.name == "hard" else rows.sum(dim=0)
        best = (scores == scores.max()).double()
        return best / best.sum()

    def _layout(self) -> Layout:
        match self.name:
            case "zero-shot":
                return ZeroShot()
            case "k-shot":
                return Together()
            case _:
                return OneEach()
