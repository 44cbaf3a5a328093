"""The private loop: utilities, weights, payment, draw, token by token."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from dpicl_rag.charging import Charge
from dpicl_rag.language_models.base import Rows
from dpicl_rag.mechanisms.exponential import aggregate, draw, utility_ranges
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.utilities import Utility


def candidates(public: torch.Tensor, top_k: int | None) -> torch.Tensor | None:
    """Mask of the tokens outside the public model's ``top_k``, or None for no limit."""
    if top_k is None or top_k >= len(public):
        return None
    outside = torch.ones_like(public, dtype=torch.bool)
    outside[public.topk(top_k).indices] = False
    return outside


def score(
    log_probs: torch.Tensor,
    utility: Utility,
    strength: float,
    charge: Charge,
    top_k: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of the mechanism before its draw.

    Args:
        log_probs: Public row, then experts [n + 1, candidates].
        utility: What an expert says about each candidate.
        strength: lambda.
        charge: Sets the weights.
        top_k: Limit on the candidates by the public row.

    Returns:
        Unnormalised log-probabilities, float64 [candidates], and lambda times every expert's
        realised range before weighting, float64 [n].
    """
    public, experts = log_probs[0], log_probs[1:]
    outside = candidates(public, top_k)
    utilities = utility(experts, public)
    base = utility.base(public)
    if outside is not None:
        base = base.masked_fill(outside, -torch.inf)
        # Only candidates can be drawn, so only they count towards a range. Outside them every
        # utility is set to the expert's own lowest value, which leaves its range as it is.
        inside = utilities.masked_fill(outside, torch.inf).amin(dim=-1, keepdim=True)
        utilities = torch.where(outside, inside, utilities)
    ranges = strength * utility_ranges(utilities)
    weights = charge.weights(ranges)
    scale: torch.Tensor | float = strength if weights is None else strength * weights
    return aggregate(base, utilities, scale), ranges


def decode(
    rows: Rows,
    suffix: tuple[int, ...],
    utility: Utility,
    strength: float,
    charge: Charge,
    randomness: Randomness,
    *,
    max_tokens: int,
    stop_tokens: frozenset[int],
    top_k: int | None = None,
    public_rows: Rows | None = None,
) -> Iterator[int]:
    """Draw tokens until a stop token (yielded too), ``max_tokens``, or the budget's end.

    A token is yielded only after it was paid for, durably where there is a ledger.

    Args:
        rows: The public row and the experts.
        suffix: Tokens between the documents and the answer.
        utility: What an expert says about each candidate.
        strength: lambda.
        charge: Pays for each draw.
        randomness: Where draws come from.
        max_tokens: Most tokens.
        stop_tokens: Tokens that end the answer.
        top_k: Limit on the candidates by the public row.
        public_rows: The public row by itself, needed with ``top_k``: in one batch with experts
            its last bits depend on them, and so would the place where candidates are cut.
    """
    step: tuple[int, ...] = suffix
    for _ in range(max_tokens):
        if not charge.can_pay():
            return
        log_probs = rows.extend(step)
        if public_rows is not None:
            log_probs = torch.cat([public_rows.extend(step), log_probs[1:]])
        scores, ranges = score(log_probs, utility, strength, charge, top_k)
        charge.pay(ranges)
        token = draw(scores, randomness)
        charge.verify()
        yield token
        if token in stop_tokens:
            return
        step = (token,)
