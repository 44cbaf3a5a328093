"""Sarus DP-RAG: clipped differences to the public model, summed."""

from typing import Any

from benchmarks.leaderboard.by_settings import TokenByToken
from dpicl_rag.accounting import Budget, strength_for

CLIP = 1.0


def clipped_sum(budget: Budget, tokens: int) -> dict[str, Any]:
    """The sum of log ratios, each within one nat, beside the public model.

    Top-k, which its program applies afterwards, is left out: it would depend on private scores.
    """
    strength = strength_for(budget, tokens, 2 * CLIP)
    return {"utility": "log_ratio", "clip": CLIP, "public_power": 1.0, "strength": strength}


METHOD = TokenByToken(
    "Sarus DP-RAG",
    "Grislain 2024, arXiv 2412.19291, 'RAG with Differential Privacy'",
    {},
    shares=clipped_sum,
)
