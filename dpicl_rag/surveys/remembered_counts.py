"""Counts that were released before: the same one again costs nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.knowledge.answer_file import Entry
from dpicl_rag.knowledge.answer_memory import AnswerMemory
from dpicl_rag.knowledge.bundle import ABOUT, Bundle, PublishedItem
from dpicl_rag.requests import Request
from dpicl_rag.retrieval.retrievers import Documents, all_units, shaped_by
from dpicl_rag.surveys.survey_results import (
    PrivateColumn,
    PrivateCount,
    PrivateSummary,
    PrivateSurvey,
    PrivateTally,
    ReleasedNumbers,
)

R = TypeVar("R", PrivateCount, PrivateTally, PrivateColumn, PrivateSurvey, PrivateSummary)

_ROUNDING = 1e-9  # of an epsilon that is turned into rho


def remembered_or_released(
    memory: AnswerMemory | None,
    kind: type[R],
    request: Request,
    shaping: tuple[object, ...],
    run: PrivateRun,
    release: Callable[[], R],
    enough: Callable[[R], bool] | None = None,
) -> R:
    """A result released before, if it has no more noise than is asked for; else a new one.

    Args:
        memory: Of the corpus that is counted; None keeps nothing.
        kind: A count, a tally, a survey or a summary.
        request: What units are asked, and whether they are asked again. Public.
        shaping: All else that shapes it but epsilon and delta. Public.
        run: Its settings, and the bundles that may have it.
        release: Counts, and pays.
        enough: Whether a result has no more noise; None compares what it cost.

    Raises:
        KnowledgeError: The memory cannot be read. Nothing is spent.
    """
    asked, config = request.question or ABOUT, run.config
    item = None if request.fresh else run.knowledge.published(asked, request.kind)
    if item is not None and (bought := _bought(item, kind, request)) is not None:
        return bought
    if memory is None:
        return release()
    shaped = (kind.__name__, config.adjacency.value, config.privacy_unit, *shaping)
    form = hashlib.sha256(repr(shaped).encode("utf-8", "replace")).hexdigest()[:16]
    if not request.fresh and (entry := memory.same_count(asked, form)):
        found, least = _read(entry, kind), epsilon_to_rho(config.epsilon, config.delta)
        if enough(found) if enough else found.rho >= least * (1 - _ROUNDING):
            memory.count_asked(entry)
            return _free(found)
    released = release()
    numbers = TypeAdapter(kind).dump_json(released).decode()
    memory.keep_count(asked, form, released, released.text, numbers)
    return released


def memory_of_counts(documents: Documents, run: PrivateRun) -> AnswerMemory | None:
    """The memory of counts of all units, or of those above a public threshold.

    Args:
        documents: What is counted.
        run: Counts it, and has a memory.

    Raises:
        ConfigurationError: The memory is that of other documents.
    """
    search = all_units(documents, run.config.privacy_unit)
    if shaped_by(search) is None:
        return None
    run.require_memory(search)
    return run.knowledge.memory


def _free(found: R) -> R:
    return replace(found, epsilon=0.0, delta=0.0, rho=0.0, from_memory=True)


_RESULTS: Mapping[str, type[Any]] = {
    one.kind: one
    for one in (PrivateCount, PrivateTally, PrivateColumn, PrivateSurvey, PrivateSummary)
}


def published_item(bundle: Bundle, request: Request) -> PublishedItem | None:
    """The item that answers a request with its kind; None where it is of other labels or words.

    A survey stands in for a summary, and any item for an answer.
    """
    asked, kind = request.question or ABOUT, request.kind or "answer"
    if kind not in _RESULTS:
        return bundle.find(asked)
    item = bundle.find(asked, kind)
    if item is None and kind == "summary":
        item = bundle.find(asked, "survey")
    return None if item is None or _bought(item, _RESULTS[item.kind], request) is None else item


def published_count(bundle: Bundle, request: Request) -> ReleasedNumbers | None:
    """What a bundle has counted, by `published_item`; None where it has not."""
    item = published_item(bundle, request)
    return None if item is None else _bought(item, _RESULTS[item.kind], request)


def _bought(item: PublishedItem, kind: type[R], request: Request) -> R | None:
    """What was published, for nothing; None where it is of other labels or words."""
    found = TypeAdapter(kind).validate_python(item.numbers)
    of_some = kind is not PrivateColumn or request.labels
    if isinstance(found, PrivateTally) and of_some and set(found.counts) != set(request.labels):
        return None
    return None if request.vocabulary or request.threshold is not None else _free(found)


def _read(entry: Entry, kind: type[R]) -> R:
    try:
        return TypeAdapter(kind).validate_json(entry.numbers)
    except ValidationError:
        raise entry.damaged() from None
