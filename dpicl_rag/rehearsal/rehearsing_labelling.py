"""Rehearsing labels: public documents are given one, and the way is chosen that is right most."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass
from itertools import count

from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.mechanisms.step import rows_of
from dpicl_rag.prompts import label_tokens
from dpicl_rag.rehearsal.labelling import FORMS, Labelling
from dpicl_rag.rehearsal.labelling_items import LabelSet, documents, label_sets
from dpicl_rag.rehearsal.rehearsing_yes_or_no import with_small_cache
from dpicl_rag.rehearsal.yes_or_no import TOKENS, Form, MeasuredRate, Reading

_EVERY = 3  # set is one, by which the form is chosen


@dataclass(frozen=True, slots=True)
class _Said:
    """Of one label, by how many documents it was rightly said, and by how many rightly not."""

    yes: tuple[int, int]
    no: tuple[int, int]


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
    first = label_sets()[::_EVERY]
    others = [one for one in label_sets() if one not in first]
    whole, done = len(first) * len(FORMS) + len(others), count(1)

    def ask(form: Form, some: Sequence[LabelSet]) -> list[_Said]:
        found = []
        for one in some:
            found.extend(_asked(model, form, one))
            if on_progress is not None:
                on_progress(next(done), whole)
            give_way()
        return found

    try:
        begun = {form: ask(form, first) for form in FORMS}
        form = max(FORMS, key=lambda form: _reading(begun[form]).youden)
        return Labelling(form, _reading([*begun[form], *ask(form, others)]))
    except ContextLengthError:  # it reads no more than a few words
        return Labelling("plain", _reading([]))


def _asked(model: LanguageModel, form: Form, asked: LabelSet) -> list[_Said]:
    labels = list(asked.fitting)
    fitting = [at for at, names in enumerate(asked.fitting.values()) for _ in names]
    texts = [documents()[name] for names in asked.fitting.values() for name in names]
    prompt = Labelling(form, _reading([])).prompt(model, asked.question, labels)
    tokens = label_tokens(model.tokenizer, labels, prompt.lead)
    longest = max(map(len, tokens))
    most = prompt.allowance(model, TOKENS, longest)
    inputs = [model.digest((text,), most) for text in (prompt.no_document, *texts)]
    rows = model.read(prompt.prefix, inputs, room=len(prompt.suffix) + longest)
    rows.extend(prompt.suffix)
    said = rows_of(rows.score(tokens))[1:].argmax(dim=-1).tolist()
    each = list(zip(fitting, said, strict=True))
    return [
        _Said(
            (sum(fit == own == at for fit, own in each), sum(fit == at for fit, _ in each)),
            (
                sum(at not in (fit, own) for fit, own in each),
                sum(fit != at for fit, _ in each),
            ),
        )
        for at in range(len(labels))
    ]


def _reading(found: Sequence[_Said]) -> Reading:
    return Reading(
        0.0,  # a label is said that is likelier than any other
        MeasuredRate.of(one.yes for one in found),
        MeasuredRate.of(one.no for one in found),
    )
