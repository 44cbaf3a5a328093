"""Yes and no of a model: how it is asked for them, and how often it is right, by its rehearsal.

A model leans to one of them, by its nature and by the words of a question. Where nearly all
documents of a public panel clearly say no to the same question, what says yes is seen; where many
are near to yes, a document must pass a higher bar, and more is misread. The form of the question
and both bars are those by which counts of public documents are nearest to the truth.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.mechanisms.step import rows_of
from dpicl_rag.prompts import Example, Prompt, PromptTemplate, label_tokens
from dpicl_rag.rehearsal.yes_or_no_items import panel, version

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
    return hashlib.sha256(f"{version()} {FORMS!r}".encode()).hexdigest()


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
