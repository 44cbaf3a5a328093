"""Whole rows from the likeliest tokens of each: the shown ones bound the others.

Every row of an expert follows from what its own prompt shows and from the public row: from its own
unit and public numbers, bit for bit. What is computed over the vocabulary is a sum, a minimum and a
copy, whose bits depend on no neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch

from dpicl_rag.language_models.openai_compatible.completions import Shown

_LEAST = 1e-9
"""Probability that is left over at least, so that every token stays possible."""


def public_row(shown: Shown, size: int) -> torch.Tensor:
    """The public row: what it does not show shares what is left over evenly.

    Args:
        shown: Its likeliest tokens.
        size: Of the vocabulary.

    Returns:
        Log-probabilities, float32 [size]; no token is impossible.
    """
    known = _within(shown, size)
    row = torch.full((size,), math.nan)
    if shown:
        others = max(1, size - len(known))
        row.fill_(min(math.log(_left(shown.values()) / others), *shown.values()))
        _show(row, known)
    return row


def expert_rows(shown: Sequence[Shown], public: torch.Tensor) -> torch.Tensor:
    """Rows of experts: what is not shown is as likely as the public row has it among the rest.

    An expert that shows N tokens gives each other at most what it gives the least of them. It
    shares what is left over as the public row would, up to that. Nothing is asked about tokens that
    other experts name: a row would then depend on which others there are.

    Args:
        shown: The likeliest tokens of each expert.
        public: Log-probabilities of the public row [size].

    Returns:
        Log-probabilities, float32 [n, size]; a row that shows nothing is no distribution.
    """
    size = len(public)
    rows = public.repeat(len(shown), 1)
    for row, own in zip(rows, shown, strict=True):
        known = _within(own, size)
        if not own:
            row.fill_(math.nan)
            continue
        share = _left(own.values()) / _left(public[_ids(known)].tolist())
        row.add_(math.log(share)).clamp_(max=min(own.values()))
        _show(row, known)
    return rows


def _left(log_probs: Iterable[float]) -> float:
    return max(_LEAST, 1.0 - math.fsum(math.exp(value) for value in log_probs))


def _within(shown: Shown, size: int) -> Shown:
    """Without numbers beyond the vocabulary, which no text can hold; they are left over."""
    return {id: value for id, value in shown.items() if 0 <= id < size}


def _show(row: torch.Tensor, known: Shown) -> None:
    row[_ids(known)] = torch.tensor(list(known.values()), dtype=row.dtype)


def _ids(known: Shown) -> torch.Tensor:
    return torch.tensor(list(known), dtype=torch.long)
