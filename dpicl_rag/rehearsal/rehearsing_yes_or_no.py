"""Rehearsing yes and no: public documents are asked, and the way is chosen that misreads least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass
from itertools import count

from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.rehearsal.yes_or_no import (
    FORMS,
    Form,
    MeasuredRate,
    Reading,
    YesOrNo,
    is_clear,
    odds,
)
from dpicl_rag.rehearsal.yes_or_no_items import (
    YesOrNoQuestion,
    documents,
    panel_names,
    questions,
)

_CACHED = 1 << 28  # bytes; public documents are read once for each form
_EVERY = 3  # question is one, by which the form is chosen, and a hopeless model left
_HOPELESS = 0.25  # of Youden's J at those
_BARS = tuple(step / 4 for step in range(-24, 33))  # log-odds
_UNITS, _YES = 100, 10
"""The count that is to be nearest to the truth: of few that say yes among many, as most are."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """The log-odds of one question, by documents that say yes and that say no."""

    yes: Sequence[float]
    no: Sequence[float]
    clear: bool


def rehearse_yes_or_no(model: LanguageModel, on_progress: Progress | None = None) -> YesOrNo:
    """Ask a model; see `yes_or_no_of`, which keeps what comes of it.

    Args:
        model: Any.
        on_progress: Called with how many questions are answered, and how many there are.

    Raises:
        EngineUnavailableError: The engine does not answer.
    """
    # In a context of its own it is one step, which shares no pass with answers.
    return Context().run(_rehearse, with_small_cache(model), on_progress)


def with_small_cache(model: LanguageModel) -> LanguageModel:
    """The model without a cache of its own, which is for documents that are asked again later."""
    if isinstance(model, TransformersModel):
        return model.with_cache(PrefixCache(memory=_CACHED))
    return model


def _rehearse(model: LanguageModel, on_progress: Progress | None) -> YesOrNo:
    first = questions()[::_EVERY]
    others = [question for question in questions() if question not in first]
    whole, done = len(first) * len(FORMS) + len(others), count(1)

    def ask(form: Form, some: Sequence[YesOrNoQuestion]) -> list[_Judged]:
        found = []
        for question in some:
            found.append(_asked(model, form, question))
            if on_progress is not None:
                on_progress(next(done), whole)
            give_way()
        return found

    try:
        begun = {form: ask(form, first) for form in FORMS}
        ways = {form: best_reading(found) for form, found in begun.items()}
        form = min(FORMS, key=lambda form: _error(ways[form]))
        if ways[form].youden < _HOPELESS:
            return YesOrNo(form, ways[form], ways[form])
        found = [*begun[form], *ask(form, others)]
    except ContextLengthError:  # it reads no more than a few words
        nothing = best_reading([])
        return YesOrNo("plain", nothing, nothing)
    clear, unclear = (
        best_reading([one for one in found if one.clear == clear]) for clear in (True, False)
    )
    return YesOrNo(form, clear, unclear)


def _asked(model: LanguageModel, form: Form, question: YesOrNoQuestion) -> _Judged:
    names = tuple(dict.fromkeys((*panel_names(), *question.yes, *question.no)))
    texts = [documents()[name] for name in names]
    found = dict(zip(names, odds(model, form, question.text, texts), strict=True))
    yes, no, shown = (
        [found[name] for name in some] for some in (question.yes, question.no, panel_names())
    )
    return _Judged(yes, no, is_clear(shown))


def best_reading(asked: Sequence[_Judged]) -> Reading:
    """The reading of some questions by which counts are nearest to the truth."""
    readings = [
        Reading(
            least,
            MeasuredRate.of((sum(own > least for own in one.yes), len(one.yes)) for one in asked),
            MeasuredRate.of((sum(own <= least for own in one.no), len(one.no)) for one in asked),
        )
        for least in _BARS
    ]
    return min(readings, key=_error)


def _error(reading: Reading) -> float:
    """By how much a corrected count is off."""
    if reading.youden <= 0:
        return math.inf
    return math.sqrt(reading.variance(_YES, _UNITS - _YES)) / reading.youden
