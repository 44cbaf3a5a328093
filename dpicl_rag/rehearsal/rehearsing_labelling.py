"""Rehearsing labels: public documents are given one, and the way is chosen that is right most."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context
from functools import partial

from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.rehearsal.labelling import FORMS, Labelling, listing
from dpicl_rag.rehearsal.labelling_items import LabelSet, documents, label_sets
from dpicl_rag.rehearsal.rehearsing_yes_or_no import QuestionsInForms, with_small_cache
from dpicl_rag.rehearsal.yes_or_no import Form, MeasuredRate, Reading, label_rows

_Said = tuple[tuple[int, int], tuple[int, int]]
"""Of one label, by how many of how many documents it was rightly said, and rightly not."""


def rehearse_labelling(model: LanguageModel, on_progress: Progress | None = None) -> Labelling:
    """Ask a model; see `labelling_of`, which keeps what comes of it.

    Args:
        model: Any.
        on_progress: Called with how many sets of labels are said, and how many there are.

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
    texts = [documents()[name] for some in names for name in some]
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
