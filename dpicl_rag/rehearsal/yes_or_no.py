"""Yes and no of a model: how it is asked for them, and how often it is right, by its rehearsal.

A model leans to one of them, by its nature and by the words of a question. Where nearly all
documents of a public panel clearly say no to the same question, what says yes is seen; where many
are near to yes, a document must pass a higher bar, and more is misread. The form of the question
and both bars are those by which counts of public documents are nearest to the truth.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Generic, Literal, TypeVar

import torch

from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.mechanisms.step import rows_of
from dpicl_rag.prompts import Example, Prompt, PromptTemplate, label_tokens
from dpicl_rag.rehearsal.rehearsal_items import (
    YesOrNoQuestion,
    panel,
    panel_names,
    yes_or_no_documents,
    yes_or_no_items_version,
    yes_or_no_questions,
)

LABELS = ("Yes", "No")

_LEAST = 0.5
"""Of Youden's J, the least of a model whose counts can be corrected: at 0 it knows nothing."""

_CLEAR = -1.0
"""Log-odds below which a public document clearly says no."""

_TRUE = 2
"""Documents of the panel that may say yes to a clear question."""

_TOKENS = 512
"""Most tokens of a public document that are read."""

Form = Literal["worked", "plain"]
"""How a question is put: after worked examples, or without."""

_PLAIN = PromptTemplate(
    system="You read a document and answer a question about it. Answer Yes if the document says "
    "so, and No if it does not, or if it is about something else.",
    user="Document:\n{document}\n\nQuestion: {question} Answer Yes or No.",
    examples=(),
)
BICYCLE = "Hi Sam, the blue bicycle is gone from the yard. Did you lend it to anyone? Kit"
SOUP = (
    "The soup kitchen opens at noon. Volunteers come an hour before. We still need two people who "
    "can peel."
)
_WORKED = (
    Example(BICYCLE, "Is it about a theft or a loss?", "Yes"),
    Example(BICYCLE, "Does the writer ask for a lift?", "No"),
    Example(SOUP, "Does the writer ask about a price?", "No"),
    Example(SOUP, "Are helpers wanted?", "Yes"),
)
FORMS: dict[Form, PromptTemplate] = {
    "worked": PromptTemplate(system=_PLAIN.system, user=_PLAIN.user, examples=_WORKED),
    "plain": _PLAIN,
}


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """The part of public documents that a model reads right, at a question to come.

    Attributes:
        mean: The part.
        variance: Of it: of the mean, which was measured on few, and between questions.
    """

    mean: float
    variance: float

    @staticmethod
    def of(asked: Iterable[tuple[int, int]]) -> MeasuredRate:
        """The rate of several questions; by moments of a beta-binomial distribution.

        Args:
            asked: Of each question, how many documents were read right, and how many there were.
        """
        each = list(asked)
        whole = sum(many for _, many in each)
        pairs = sum(many * (many - 1) for _, many in each)
        mean = (sum(right for right, _ in each) + 0.5) / (whole + 1)
        chance = mean * (1 - mean)
        spread = sum((right - many * mean) ** 2 - many * chance for right, many in each)
        between = max(0.0, spread / pairs) if pairs else 0.0
        return MeasuredRate(mean, between + (whole * chance + pairs * between) / max(1, whole) ** 2)


@dataclass(frozen=True, slots=True)
class Reading:
    """How documents are read at a question, and how often that is right. Public.

    Attributes:
        least: The log-odds of yes above which a document says yes.
        yes: Of documents that say yes, the part that is read so.
        no: Of those that say no, the part that is read so.
    """

    least: float
    yes: MeasuredRate
    no: MeasuredRate

    @property
    def youden(self) -> float:
        """Youden's J: 1 of a model that is always right, 0 of one that guesses."""
        return self.yes.mean + self.no.mean - 1

    @property
    def countable(self) -> bool:
        """True where enough is seen for counts to be corrected, at most questions to come.

        Where some are hardly ever read right, no mean corrects the others: so the index counts less
        one standard deviation between them.
        """
        return self.youden - math.sqrt(self.yes.variance + self.no.variance) >= _LEAST

    @property
    def verdict(self) -> str:
        """What it is, in plain words; no model is always right."""
        yes, no = (min(99, round(100 * rate.mean)) for rate in (self.yes, self.no))
        return f"reads {yes} in 100 that say yes right, and {no} in 100 that say no"

    def variance(self, yes: float, no: float) -> float:
        """Variance of how many are read as yes, of so many that say yes and that say no."""
        said, silent = self.yes.mean, self.no.mean
        by_chance = yes * said * (1 - said) + no * silent * (1 - silent)
        return by_chance + yes**2 * self.yes.variance + no**2 * self.no.variance


@dataclass(frozen=True, slots=True)
class YesOrNo:
    """How a model is asked for yes or no, and how its odds are read. Public.

    Attributes:
        form: How a question is put.
        clear: At a question to which nearly all public documents clearly say no.
        unclear: At any other.
    """

    form: Form
    clear: Reading
    unclear: Reading

    def reading(self, model: LanguageModel, question: str) -> Reading:
        """How documents are read at a question: a function of what public ones say to it.

        Args:
            model: Reads public documents.
            question: Public text.

        Raises:
            ContextLengthError: The question leaves no room for a document.
        """
        return self.clear if is_clear(odds(model, self.form, question, panel())) else self.unclear

    def prompt(self, model: LanguageModel, question: str) -> Prompt:
        """The prompt of a question."""
        return FORMS[self.form].cut(model.tokenizer, question)


def is_clear(found: Sequence[float]) -> bool:
    """True where all but a few log-odds are clearly those of no.

    Args:
        found: Of the documents of the panel. What is asked may be true of a few of them.
    """
    return sorted(found)[-1 - _TRUE] < _CLEAR


def yes_or_no_version() -> str:
    """Hash of all public text that yes and no depend on."""
    return hashlib.sha256(f"{yes_or_no_items_version()} {FORMS!r}".encode()).hexdigest()


def odds(model: LanguageModel, form: Form, question: str, documents: Sequence[str]) -> list[float]:
    """The log-odds of yes of public documents.

    Raises:
        ContextLengthError: The question leaves no room for a document.
    """
    found = label_rows(model, FORMS[form].cut(model.tokenizer, question), LABELS, documents)
    odds_of_yes: list[float] = (found[:, 0] - found[:, 1]).tolist()
    return odds_of_yes


def label_rows(
    model: LanguageModel, prompt: Prompt, labels: Sequence[str], documents: Sequence[str]
) -> torch.Tensor:
    """The row of each public document over labels; see `odds` for errors."""
    tokens = label_tokens(model.tokenizer, labels, prompt.lead)
    longest = max(map(len, tokens))
    most = prompt.allowance(model, _TOKENS, longest)
    inputs = [model.digest((text,), most) for text in (prompt.no_document, *documents)]
    rows = model.read(prompt.prefix, inputs, room=len(prompt.suffix) + longest)
    rows.extend(prompt.suffix)
    return rows_of(rows.score(tokens))[1:].double()


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
    """Questions: a part in every form, the others in the form that is chosen by that."""

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
    asking = QuestionsInForms(yes_or_no_questions(), partial(_asked, model), on_progress)
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
    texts = [yes_or_no_documents()[name] for name in names]
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
