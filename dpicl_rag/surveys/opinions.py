"""Opinions: which of the public labels each unit says, by the language model.

A unit's opinion is a function of that unit and of public text: its own row over the labels, beside
the row that reads no document. What the model says to the question in any case is no opinion of the
unit; a content-free question in its place (Zhao et al. 2021) knows less of that (docs/surveys.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from dpicl_rag.language_models.base import Input, Progress
from dpicl_rag.language_models.turns import give_way
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


def opinions_in_steps(
    step: Callable[[Sequence[Input], Progress | None], Step],
    inputs: Sequence[Input],
    most: int,
    together: int,
    on_progress: Progress | None = None,
) -> torch.Tensor:
    """The labels that each unit says, read a few units at a time; none is moved by the others.

    Args:
        step: The rows of some units over the labels.
        inputs: What each unit is read by. Private.
        most: Labels that one unit says at most.
        together: Units of a step. Public.
        on_progress: Called with each tenth of the units that is read.

    Returns:
        Bool [n, labels].

    Raises:
        StoppedError: It was ended between two steps.
    """
    told = _Tenths(len(inputs), on_progress)
    found = []
    # Of no units too, so that an engine that is down is told in any case.
    for first in range(0, max(1, len(inputs)), together):
        some = inputs[first : first + together]
        found.append(opinions(step(some, told.within(first, len(some))), most))
        told(first + len(some))
        give_way()
    return torch.cat(found)


class _Tenths:
    """Tells each tenth of the units that is read; other parts would tell how many there are."""

    def __init__(self, units: int, on_progress: Progress | None) -> None:
        self._units = units
        self._on_progress = on_progress
        self._told = 0

    def __call__(self, units: float) -> None:
        # All ten are told of no units too.
        while self._told < 10 and 10 * units >= (self._told + 1) * self._units:
            self._told += 1
            if self._on_progress is not None:
                self._on_progress(self._told / 10, 1.0)

    def within(self, first: int, units: int) -> Progress:
        """For some units: called with the part of them."""
        return lambda part, _: self(first + part * units)
