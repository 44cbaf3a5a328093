"""Opinions of units: the labels that each says, read a few units at a time.

A unit's opinion is a function of that unit and of public text: its own row over the labels, beside
the row that reads no document. What the model says to the question in any case is no opinion of the
unit; a content-free question in its place (Zhao et al. 2021) knows less of that (docs/surveys.md).
Where the labels are in the question, it is the likeliest by the unit's own row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from dpicl_rag.language_models.base import Input, Progress, Tenths
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.mechanisms.step import Step, rows_of

T = TypeVar("T")

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
    return _said(torch.log_softmax(rows - public, dim=-1), most)


def says_likeliest(step: Step) -> torch.Tensor:
    """The label that is likeliest by each unit's own row; labels are in the question."""
    return _said(torch.log_softmax(rows_of(step)[1:].double().cpu(), dim=-1), 1)


def _said(rows: torch.Tensor, most: int) -> torch.Tensor:
    labels = rows.shape[-1]
    ordered, places = rows.sort(dim=-1, descending=True, stable=True)
    said = ordered >= -math.log(labels) - _ROUNDING
    said[:, :1] = True
    said &= ordered.isfinite()  # NaN is not
    said[:, most:] = False
    return torch.zeros_like(said).scatter(-1, places, said)


def says_first(step: Step) -> torch.Tensor:
    """Whether each unit says the first label, see `opinions`. Bool [n, 1]."""
    return opinions(step)[:, :1]


def says_yes(step: Step, least: float) -> torch.Tensor:
    """Whether each unit says yes: its own log-odds are above a public bar. Bool [n, 1].

    A unit whose row is no distribution says no.
    """
    rows = rows_of(step)[1:].double().cpu()
    return (rows[:, :1] - rows[:, 1:]) > least


def opinions_in_steps(
    step: Callable[[Sequence[Input], Progress | None], Step],
    inputs: Sequence[Input],
    opinion: Callable[[Step], torch.Tensor],
    together: int,
    on_progress: Progress | None = None,
) -> torch.Tensor:
    """The labels that each unit says, read a few units at a time; none is moved by the others.

    Args:
        step: The rows of some units over the labels.
        inputs: What each unit is read by. Private.
        opinion: What units say, by their rows.
        together: Units of a step. Public.
        on_progress: Called with each tenth of the units that is read.

    Returns:
        Bool [n, labels].

    Raises:
        StoppedError: It was ended between two steps.
    """
    steps = units_in_steps(inputs, together, on_progress)
    return torch.cat([opinion(step(some, within)) for some, within in steps])


def units_in_steps(
    units: Sequence[T], together: int, on_progress: Progress | None
) -> Iterator[tuple[Sequence[T], Progress]]:
    """Some units after others, as many as are read at once, and what tells of them. Private.

    Args:
        units: All of them; of none there is one step too, so that an engine that is down is told.
        together: How many one step reads. Public.
        on_progress: Called with each tenth of the units that is read.

    Raises:
        StoppedError: It was ended between two steps.
    """
    advance = Tenths(len(units), on_progress)
    for first in range(0, max(1, len(units)), together):
        some = units[first : first + together]
        yield some, advance.within(len(some))
        advance(len(some))
        give_way()
