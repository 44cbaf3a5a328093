"""Rehearsing yes and no: public documents are asked, and the way is chosen that misreads least."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Generic, TypeVar

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

Q = TypeVar("Q")
A = TypeVar("A")

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


class QuestionsInForms(Generic[Q, A]):
    """Questions: a part in every form, the others in the form that is chosen by that.

    Args:
        questions: All of them.
        ask: Asks one in a form.
        on_progress: Called with how many are answered, and how many there are.
    """

    def __init__(
        self, questions: Sequence[Q], ask: Callable[[Form, Q], A], on_progress: Progress | None
    ) -> None:
        self._first = questions[::_EVERY]
        self._others = [question for question in questions if question not in self._first]
        self._ask, self._on_progress = ask, on_progress
        self._whole = len(self._first) * len(FORMS) + len(self._others)
        self._done = count(1)

    def begun(self) -> dict[Form, list[A]]:
        """Answers to the part that is asked in every form."""
        return {form: self._asked(form, self._first) for form in FORMS}

    def others(self, form: Form) -> list[A]:
        """Answers to the others."""
        return self._asked(form, self._others)

    def _asked(self, form: Form, some: Sequence[Q]) -> list[A]:
        found = []
        for question in some:
            found.append(self._ask(form, question))
            if self._on_progress is not None:
                self._on_progress(next(self._done), self._whole)
            give_way()
        return found


def _rehearse(model: LanguageModel, on_progress: Progress | None) -> YesOrNo:
    asking = QuestionsInForms(questions(), partial(_asked, model), on_progress)
    try:
        begun = asking.begun()
        ways = {form: best_reading(found) for form, found in begun.items()}
        form = min(FORMS, key=lambda form: _error(ways[form]))
        if ways[form].youden < _HOPELESS:
            return YesOrNo(form, ways[form], ways[form])
        found = [*begun[form], *asking.others(form)]
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
