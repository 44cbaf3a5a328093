"""Labels of a model: how it is asked for one, and how often it says the right one, by rehearsal.

To each label alone a document says yes or no: it is read as that label or as another. So the rates
of yes and no, and the correction of counts, are those of labels too; how a model is asked is the
way by which most public documents are given the label that fits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.prompts import Example, Prompt, PromptTemplate
from dpicl_rag.rehearsal.labelling_items import version
from dpicl_rag.rehearsal.yes_or_no import BICYCLE, SOUP, Form, Reading


def listing(question: str, labels: Sequence[str]) -> str:
    """A question with the labels that answer it."""
    return f"{question} Answer with one of these labels: {'; '.join(labels)}."


_PLAIN = PromptTemplate(
    system="You read a document and answer a question about it with one of the labels that are "
    "given: the one that fits best.",
    examples=(),
)
_WORKED = (
    Example(
        BICYCLE,
        listing("What is it about?", ("a garden", "a loss or a theft", "music", "something else")),
        "a loss or a theft",
    ),
    Example(
        SOUP,
        listing("What does the writer mention?", ("a machine", "a price", "none of these")),
        "none of these",
    ),
    Example(
        SOUP,
        listing("What is it about?", ("helping others", "a journey", "something else")),
        "helping others",
    ),
)
FORMS: dict[Form, PromptTemplate] = {"worked": replace(_PLAIN, examples=_WORKED), "plain": _PLAIN}


@dataclass(frozen=True, slots=True)
class Labelling:
    """How a model is asked for labels, and how often it says the right one. Public.

    Attributes:
        form: How a question is put.
        reading: Of documents that a label fits, the part that is given it, and of those that it
            does not fit, the part that is not.
    """

    form: Form
    reading: Reading

    @property
    def countable(self) -> bool:
        """True where enough labels are right for counts of them to be corrected."""
        return self.reading.countable

    @property
    def verdict(self) -> str:
        """What it is, in plain words; no model is always right."""
        yes, no = (min(99, round(100 * rate.mean)) for rate in (self.reading.yes, self.reading.no))
        return f"gives {yes} in 100 the label that fits, and {no} in 100 none that does not"

    def prompt(self, model: LanguageModel, question: str, labels: Sequence[str]) -> Prompt:
        """The prompt of a question and its labels."""
        return FORMS[self.form].cut(model.tokenizer, listing(question, labels))


def labelling_version() -> str:
    """Hash of all public text that labels depend on."""
    return hashlib.sha256(f"{version()} {FORMS!r}".encode()).hexdigest()
