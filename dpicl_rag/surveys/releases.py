"""Releases by kind of request: what answers each, what it costs, and of which documents.

The kind that is left out is told from the whole question, which is public. So neither the kind nor
its price depends on a document. All doors decide here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dpicl_rag.answering.answers import begin_answer, plan_of_answer
from dpicl_rag.answering.follow_ups import whole_question
from dpicl_rag.answering.free_answers import ready_stream, reply_about_one
from dpicl_rag.answering.labels import draw_label, plan_of_label
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.knowledge.bundle import ABOUT, Bundle
from dpicl_rag.requests import Kind, Request
from dpicl_rag.results import PrivateAnswer, PrivateLabel, ReleasedBy, cost_of
from dpicl_rag.retrieval.retrievers import Documents, corpus_name_of, whole_of
from dpicl_rag.surveys import column_releases, tallies
from dpicl_rag.surveys.remembered_counts import published_count
from dpicl_rag.surveys.summaries import (
    plan_of_summary,
    plan_of_survey_documents,
    summarise_units,
    survey_documents,
)
from dpicl_rag.surveys.survey_results import ReleasedNumbers, SurveyedUnits
from dpicl_rag.synthesis.label_head import LabelHead, published_label

T = TypeVar("T")

Result = PrivateAnswer | PrivateLabel | ReleasedNumbers | LabelHead
"""What a request is answered with: a DP output, and public numbers."""

Planned = tuple[Plan[Any], int | None]
"""A plan, and about how many units are read for it; None where only the documents tell."""


def settled(request: Request, documents: Documents, run: PrivateRun) -> tuple[Request, Documents]:
    """The request with its kind, and the documents that it is about.

    Where the kind was left out it is that of the whole question, and a count is of all units that
    a search for an answer looks in.

    Args:
        request: Public.
        documents: Looked at by nobody.
        run: Has the model that writes a follow-up in whole words.

    Raises:
        ConfigurationError: A field does not fit the kind, or the documents are a part that another
            search has cut, which cannot be counted.
        EngineUnavailableError: The model is asked for whole words, and does not answer.
    """
    if request.turns and request.question is not None and request.kind != "answer":
        whole = whole_question(request.question, request.turns, run.model, run.reader)
        request = request.model_copy(update={"question": whole, "turns": ()})
    chosen = request.settled()
    if request.kind is not None:
        return chosen, documents
    return chosen, whole_of(documents) if chosen.kind in COUNTING else documents


def release(request: Request, documents: Documents, run: PrivateRun) -> Result:
    """The result of a request.

    Args:
        request: Public.
        documents: Private.
        run: Reads them, and pays.
    """
    chosen, documents = settled(request, documents, run)
    return _released(chosen, documents, run)


def begin(request: Request, documents: Documents, run: PrivateRun) -> PrivateStream:
    """A stream of the answer to a request; what is counted is counted before it begins.

    Args:
        request: Public.
        documents: Private.
        run: Reads them, and pays.
    """
    request, documents = settled(request, documents, run)
    kind = _kind(request)
    if kind == "answer":
        return begin_answer(request, documents, run)
    found = _released(request, documents, run)
    answer = in_words(found, kind, run.booked_under(corpus_name_of(documents)))
    return ready_stream(answer, request.words or "", run.model.tokenizer)


def planned(request: Request, documents: Documents, run: PrivateRun) -> Planned:
    """The plan of a request, and about how many units are read for it."""
    request, documents = settled(request, documents, run)
    return _PLANS[_kind(request)](request, documents, run)


def _kind(request: Request) -> Kind:
    return request.kind or "answer"


def _released(request: Request, documents: Documents, run: PrivateRun) -> Result:
    """The result of a request with its kind; a bundle has it already, or an answer to the same."""
    kind = _kind(request)
    found: Result | None
    if isinstance(documents, Bundle) and kind in COUNTING:
        found = published_count(documents, request)
        if found is None:
            said = Request.of("answer", question=request.words or ABOUT)
            return begin_answer(said, documents, run).whole()
    elif isinstance(documents, Bundle) and kind == "label":
        found = published_label(documents, request.asked(), request.labels)
    else:
        found = _RELEASES[kind](request, documents, run)
    if isinstance(found, SurveyedUnits) and found.question is None:
        return replace(found, question=request.words)  # of whole documents, in its language
    return found


def in_words(found: Result, kind: Kind, corpus: str) -> PrivateAnswer:
    """A result as an answer in text, with its numbers beside."""
    if isinstance(found, PrivateAnswer):
        return found
    by: ReleasedBy = "counts"
    if isinstance(found, PrivateLabel):
        text, numbers = found.label, {"label": found.label}
        by = "counts" if found.epsilon else "published"
    else:
        text, by = found.text, "memory" if found.from_memory else "counts"
        beside = {"text", "from_memory", *cost_of(found)}
        numbers = {name: one for name, one in found.as_dict().items() if name not in beside}
    return PrivateAnswer(
        text=text,
        epsilon=found.epsilon,
        delta=found.delta,
        rho=found.rho,
        tokens=0,
        stopped_by="end",
        corpus=corpus,
        from_memory=by != "counts",
        by=by,
        kind=kind,
        numbers=numbers,
    )


def _under_terms(
    work: Callable[[Request, Documents, PrivateRun], T],
) -> Callable[[Request, Documents, PrivateRun], T]:
    """The same with the settings of what budgets pay for. An answer asks for them by itself."""

    def on_terms(request: Request, documents: Documents, run: PrivateRun) -> T:
        return work(request, documents, run.under_terms(corpus_name_of(documents)))

    return on_terms


def _about_one(request: Request, documents: Documents, run: PrivateRun) -> PrivateAnswer:
    """What is said in place of one person's words; nobody looks at the documents."""
    return reply_about_one(request.asked(), run.booked_under(corpus_name_of(documents)))


@dataclass(frozen=True, slots=True)
class _Nothing:
    """What is not drawn, and free."""

    rho: float = 0.0


_FREE = Plan(_Nothing(), individual=False, epsilon=0.0, delta=0.0, rho=0.0, parts=())

_RELEASES: Mapping[Kind, Callable[[Request, Documents, PrivateRun], Result]] = {
    "answer": lambda request, documents, run: begin_answer(request, documents, run).whole(),
    "label": _under_terms(draw_label),
    "count": _under_terms(tallies.count_units),
    "tally": _under_terms(tallies.tally_units),
    "column": _under_terms(column_releases.count_column),
    "label-head": _under_terms(column_releases.release_head),
    "survey": _under_terms(survey_documents),
    "summary": _under_terms(summarise_units),
    "person": _about_one,
}
_PLANS: Mapping[Kind, Callable[[Request, Documents, PrivateRun], Planned]] = {
    "answer": plan_of_answer,
    "label": _under_terms(plan_of_label),
    "count": _under_terms(tallies.plan_of_count),
    "tally": _under_terms(tallies.plan_of_tally),
    "column": _under_terms(column_releases.plan_of_column),
    "label-head": _under_terms(column_releases.plan_of_head),
    "survey": _under_terms(plan_of_survey_documents),
    "summary": _under_terms(plan_of_summary),
    "person": lambda request, documents, run: (_FREE, None),
}
COUNTING = frozenset({"count", "tally", "column", "survey", "summary"})
"""Kinds that are about all units."""
