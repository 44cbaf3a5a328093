"""Opinions: which of the public labels each unit says, by the language model.

A unit's opinion is a function of that unit and of public text: its own row over the labels, beside
the row that reads no document. What the model says to the question in any case is no opinion of the
unit; a content-free question in its place (Zhao et al. 2021) knows less of that (docs/surveys.md).
"""

from __future__ import annotations

import math

import torch

from dpicl_rag.mechanisms.step import Step, rows_of

YES_OR_NO = ("yes", "no")
"""The labels of a count."""

_ROUNDING = 1e-9  # of a sum of probabilities over labels


def opinions(step: Step, most: int = 1) -> torch.Tensor:
    """The labels that each unit says: the likeliest, and of more those that beat an even chance.

    Args:
        step: Rows of the units over the labels.
        most: Labels that one unit says at most.

    Returns:
        Bool [n, labels]. A unit whose row is no distribution says none.
    """
    public, rows = step.public.double().cpu(), rows_of(step)[1:].double().cpu()
    rows = torch.log_softmax(rows - public, dim=-1)
    labels = rows.shape[-1]
    ordered, places = rows.sort(dim=-1, descending=True, stable=True)
    said = ordered >= -math.log(labels) - _ROUNDING
    said[:, :1] = True
    said &= ordered.isfinite()  # NaN is not
    said[:, most:] = False
    return torch.zeros_like(said).scatter(-1, places, said)
