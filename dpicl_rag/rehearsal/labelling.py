"""Labels of a model: how it is asked for one, and how often it says the right one, by rehearsal.

To each label alone a document says yes or no: it is read as that label or as another. So the rates
of yes and no, and the correction of counts, are those of labels too; how a model is asked is the
way by which most public documents are given the label that fits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial

from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.prompts import Example, Prompt, PromptTemplate
from dpicl_rag.rehearsal.rehearsal_items import (
    LabelSet,
    label_sets,
    labelled_documents,
    labelling_items_version,
)
from dpicl_rag.rehearsal.yes_or_no import (
    BICYCLE,
    SOUP,
    Form,
    MeasuredRate,
    QuestionsInForms,
    Reading,
    label_rows,
    with_small_cache,
)


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
    return hashlib.sha256(f"{labelling_items_version()} {FORMS!r}".encode()).hexdigest()


_Said = tuple[tuple[int, int], tuple[int, int]]
"""Of one label, by how many of how many documents it was rightly said, and rightly not."""


def rehearse_labelling(model: LanguageModel, on_progress: Progress | None = None) -> Labelling:
    """Ask a model; see `labelling_of`, which keeps what comes of it.

    Raises:
        EngineUnavailableError: The engine does not answer.
    """
    # In a context of its own it is one step, which shares no pass with answers.
    return Context().run(_rehearse, with_small_cache(model), on_progress)


def _rehearse(model: LanguageModel, on_progress: Progress | None) -> Labelling:
    asking = QuestionsInForms(label_sets(), partial(_asked, model), on_progress)
    try:
        begun = asking.begun()
        form = max(FORMS, key=lambda form: _reading(begun[form]).youden)
        return Labelling(form, _reading([*begun[form], *asking.others(form)]))
    except ContextLengthError:  # it reads no more than a few words
        return Labelling("plain", _reading([]))


def _asked(model: LanguageModel, form: Form, asked: LabelSet) -> list[_Said]:
    labels, names = list(asked.fitting), asked.fitting.values()
    texts = [labelled_documents()[name] for some in names for name in some]
    prompt = FORMS[form].cut(model.tokenizer, listing(asked.question, labels))
    said = label_rows(model, prompt, labels, texts).argmax(dim=-1).tolist()
    each = list(zip((at for at, some in enumerate(names) for _ in some), said, strict=True))
    found = []
    for at in range(len(labels)):
        fits = [own == at for fit, own in each if fit == at]
        others = [own != at for fit, own in each if fit != at]
        found.append(((sum(fits), len(fits)), (sum(others), len(others))))
    return found


def _reading(found: Sequence[Sequence[_Said]]) -> Reading:
    yes, no = (MeasuredRate.of(one[at] for some in found for one in some) for at in (0, 1))
    return Reading(0.0, yes, no)  # a label is said that is likelier than any other
