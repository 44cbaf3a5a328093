"""The private loop: utilities, weights, payment, draw, token by token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from dpicl_rag.charging import Charge
from dpicl_rag.drafting import Draft
from dpicl_rag.language_models.base import BlockRows, Rows
from dpicl_rag.mechanisms.exponential import aggregate, draw, utility_ranges
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.utilities import Utility

# Experts whose utilities are held at once; a slice stays in the processor's cache.
_SLICE = 16


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
    public, slices = log_probs[0], torch.split(log_probs[1:], _SLICE)
    outside = candidates(public, top_k)
    scores = utility.base(public)
    if outside is not None:
        scores = scores.masked_fill(outside, -torch.inf)

    def utilities(experts: torch.Tensor) -> torch.Tensor:
        found = utility(experts, public)
        if outside is None:
            return found
        # Only candidates can be drawn, so only they count towards a range. Outside them every
        # utility is set to the expert's own lowest value, which leaves its range as it is.
        inside = found.masked_fill(outside, torch.inf).amin(dim=-1, keepdim=True)
        return torch.where(outside, inside, found)

    # Computed twice, because weights need all ranges first: to keep the utilities of all experts
    # would take as much memory as their log-probabilities, and saves little time or none.
    ranges = strength * torch.cat([utility_ranges(utilities(experts)) for experts in slices])
    weights = charge.weights(ranges)
    scales = torch.full_like(ranges, strength) if weights is None else strength * weights
    for experts, scale in zip(slices, torch.split(scales, _SLICE), strict=True):
        scores = aggregate(scores, utilities(experts), scale)
    return scores, ranges


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
    draft: Draft | None = None,
) -> Iterator[int]:
    """Draw tokens until a stop token (yielded too), ``max_tokens``, or the budget's end.

    A token is yielded only after it was paid for, durably where there is a ledger.

    With a draft, experts read a block of proposed tokens in one pass, and the block is walked
    with the mechanism of the plain loop: draw the next token; where it is the proposed one, the
    experts have read on already and the walk goes on; where it is not, the rest of the block is
    forgotten. The released tokens have the distribution of the plain loop. Proof: let ``q(. | y)``
    be the mechanism's distribution after the released tokens ``y``. A row's scores at a place
    depend on the tokens before it alone, and the walk reaches a place only if the tokens before it
    are the released ones, so each draw is from ``q(. | y)``, with fresh randomness. The proposal
    is a function of public text and ``y`` and only decides whether the scores of the next place
    are there already or are computed next. Hence the probability of ``y_1 ... y_T`` is the product
    of ``q(y_t | y_1 ... y_t-1)`` in both. Payment is per draw, so the charge is the same too; what
    was computed and not reached is never looked at.

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
        draft: Proposes blocks; the rows must be ``BlockRows``.
    """
    pending: tuple[int, ...] = suffix
    released: list[int] = []
    while len(released) < max_tokens and charge.can_pay():
        block: list[int] = []
        if draft is not None:
            block = draft.propose((*suffix, *released), max_tokens - len(released) - 1)
        places = _places(rows, pending, block)
        if public_rows is not None:
            alone = _places(public_rows, pending, block)
            places = [torch.cat([one, all_[1:]]) for one, all_ in zip(alone, places, strict=True)]
        for at, log_probs in enumerate(places):
            if at > 0 and not charge.can_pay():
                return
            scores, ranges = score(log_probs, utility, strength, charge, top_k)
            charge.pay(ranges)
            token = draw(scores, randomness)
            charge.verify()
            released.append(token)
            yield token
            if token in stop_tokens:
                return
            if at < len(block) and token != block[at]:
                for some in (rows, public_rows):
                    if isinstance(some, BlockRows):
                        some.rewind(len(block) - at)
                break
        del places, log_probs  # with many experts they are large beside the next ones
        pending = (released[-1],)


def _places(rows: Rows, pending: Sequence[int], block: Sequence[int]) -> list[torch.Tensor]:
    """Log-probabilities [rows, vocabulary] after ``pending`` and after each token of a block."""
    if not block:
        return [rows.extend(pending)]
    assert isinstance(rows, BlockRows)
    return list(rows.extend_each((*pending, *block), len(block) + 1).unbind(1))
