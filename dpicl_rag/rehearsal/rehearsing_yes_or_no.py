"""Rehearsing yes and no: public documents are asked, and the way is chosen that misreads least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass
from itertools import count

from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.rehearsal.yes_or_no import FORMS, Form, Rate, YesOrNo, odds
from dpicl_rag.rehearsal.yes_or_no_items import (
    YesOrNoQuestion,
    documents,
    panel_names,
    questions,
)

_FIRST = 8  # questions, by which the form is chosen, and a hopeless model left
_HOPELESS = 0.25  # of Youden's J at those
_SHARES = (0.0, 0.5, 1.0)
_LEAST = tuple(step / 4 for step in range(-24, 33))  # nats
_UNITS, _YES = 100, 10
"""The count that is to be nearest to the truth: of few that say yes among many, as most are."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The log-odds of one question, by documents that say yes and that say no.

    Each stands beside the mean of the panel without the document itself.
    """

    yes: Sequence[tuple[float, float]]
    no: Sequence[tuple[float, float]]


def rehearse_yes_or_no(model: LanguageModel, on_progress: Progress | None = None) -> YesOrNo:
    """Ask a model; see `yes_or_no_of`, which keeps what comes of it.

    Args:
        model: Any.
        on_progress: Called with how many questions are answered, and how many there are.

    Raises:
        EngineUnavailableError: The engine does not answer.
    """
    # In a context of its own it is one step, which shares no pass with answers.
    return Context().run(_rehearse, model, on_progress)


def _rehearse(model: LanguageModel, on_progress: Progress | None) -> YesOrNo:
    if isinstance(model, TransformersModel):
        model = model.with_cache(None)  # its place is for documents that are read again
    asked, done = questions(), count(1)
    whole = len(asked) + _FIRST * (len(FORMS) - 1)

    def ask(form: Form, some: Sequence[YesOrNoQuestion]) -> list[_Asked]:
        found = []
        for question in some:
            found.append(_asked(model, form, question))
            if on_progress is not None:
                on_progress(next(done), whole)
            give_way()
        return found

    try:
        first = {form: ask(form, asked[:_FIRST]) for form in FORMS}
        ways = {form: best_way(form, found) for form, found in first.items()}
        form = min(ways, key=lambda form: _error(ways[form]))
        if ways[form].youden < _HOPELESS:
            return ways[form]
        return best_way(form, [*first[form], *ask(form, asked[_FIRST:])])
    except ContextLengthError:  # it reads no more than a few words
        return YesOrNo("plain", 0.0, 0.0, Rate(0.5, 0.25), Rate(0.5, 0.25))


def _asked(model: LanguageModel, form: Form, question: YesOrNoQuestion) -> _Asked:
    names = tuple(dict.fromkeys((*panel_names(), *question.yes, *question.no)))
    texts = [documents()[name] for name in names]
    found = dict(zip(names, odds(model, form, question.text, texts), strict=True))

    def beside(name: str) -> tuple[float, float]:
        others = [found[other] for other in panel_names() if other != name]
        return found[name], sum(others) / len(others)

    return _Asked([beside(name) for name in question.yes], [beside(name) for name in question.no])


def best_way(form: Form, asked: Sequence[_Asked]) -> YesOrNo:
    """The way of reading the odds by which counts are nearest to the truth."""
    ways = [
        YesOrNo(
            form,
            share,
            least,
            Rate.of((_above(one.yes, share, least), len(one.yes)) for one in asked),
            Rate.of((len(one.no) - _above(one.no, share, least), len(one.no)) for one in asked),
        )
        for share in _SHARES
        for least in _LEAST
    ]
    return min(ways, key=_error)


def _above(odds: Sequence[tuple[float, float]], share: float, least: float) -> int:
    return sum(own > least + share * others for own, others in odds)


def _error(way: YesOrNo) -> float:
    """By how much a corrected count is off."""
    if way.youden <= 0:
        return math.inf
    return math.sqrt(way.variance(_YES, _UNITS - _YES)) / way.youden
