"""Publishing: requests that share one budget, released one by one into a folder.

Each request is an ordinary one: its plan has the price, its run pays that and no more, from the
ledger that the model books in. Without a ledger one is made that lives as long as the publication:
then the bundle is one release by itself, whose guarantee is that of its parts together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from dpicl_rag.accounting import DELTA
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.run_files import alone_in, scratch_folder
from dpicl_rag.knowledge import Entry
from dpicl_rag.knowledge.bundle import MANIFEST, Bundle, PublishedItem
from dpicl_rag.language_models.base import Progress
from dpicl_rag.ledger import Ledger
from dpicl_rag.ledger.budgets import refused
from dpicl_rag.ledger.fixed_point import charge, exact
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.publishing.publication_folder import ReleaseFolder, on_disk, was_left
from dpicl_rag.publishing.publication_plan import PublicationPlan, asking
from dpicl_rag.requests import Request
from dpicl_rag.results import PrivateAnswer, PrivateLabel, cost_of
from dpicl_rag.retrieval.retrievers import Documents
from dpicl_rag.retrieval.vectors import unit_field_of
from dpicl_rag.synthesis.label_head import LabelHead
from dpicl_rag.synthesis.released_records import Synthesis

_UNIT = "the privacy unit of the corpus"


def plan_publication(
    llm: PrivateContextLLM,
    documents: Documents,
    requests: Sequence[Request],
    *,
    epsilon: float,
    delta: float = DELTA,
    weights: Sequence[float] | None = None,
) -> PublicationPlan:
    """The plan of a publication: what each item costs. Nothing is searched or paid.

    Arguments and errors are those of `publish`.
    """
    requests = [request.settled() for request in requests]
    with _own_ledger(llm, documents, requests, epsilon, delta) as own:
        booked = llm.booked_in(own)
        return PublicationPlan.of(
            booked, documents, requests, epsilon=epsilon, delta=delta, weights=weights
        )


def publish(
    llm: PrivateContextLLM,
    documents: Documents,
    into: str | Path,
    requests: Sequence[Request],
    *,
    epsilon: float,
    delta: float = DELTA,
    weights: Sequence[float] | None = None,
    beside: Sequence[PublishedItem] = (),
    unit: str | None = None,
    again: bool = False,
    on_progress: Progress | None = None,
) -> Bundle:
    """Publish what some requests release, for one budget, into a folder.

    Killed at any instant it goes on where it stopped, when it is called again with the same
    requests. What it was releasing then is lost: it is paid for and never asked again.

    Args:
        llm: Answers, at its own settings but epsilon and delta, and books in its ledger.
        documents: As in ``PrivateContextLLM.answer``; a survey needs a corpus.
        into: The folder; made where there is none.
        requests: Answers, counts, tallies, columns, label heads, surveys and summaries; those
            without a kind are of that which their question tells. Public: choose them without
            looking at the documents.
        epsilon: All items together are (epsilon, delta)-DP for every unit.
        delta: See ``epsilon``.
        weights: Of the share of each request in the budget; equal ones by default. Public.
        beside: Items that had been released before, see `remembered_items` and `records_item`.
        unit: What one privacy unit is, for who reads the bundle; by default the field that makes
            one, where the documents name it.
        again: Release anew, and pay anew, where the folder holds a bundle: it takes its place, asks
            the documents and no memory, and its ``changes`` say what is other.
        on_progress: Called with the number of items that are done, and with that of all.

    Raises:
        ConfigurationError: A parameter is outside its range; the folder holds a bundle, or the
            beginning of another one; the ledger's budget has less left than the whole costs.
        KnowledgeError: The bundle that is there was changed.
        DPICLError: As `PrivateContextLLM.run`. What was released until then stays in the folder.
    """
    folder = Path(into)
    requests = [request.settled() for request in requests]
    with (
        alone_in(folder, "another process publishes there"),
        _own_ledger(llm, documents, requests, epsilon, delta) as own,
    ):
        before = Bundle.open(folder) if (folder / MANIFEST).exists() else None
        if before is not None and not again:
            raise ConfigurationError(
                f"{folder}: holds a bundle of {before.published}; give another folder, or publish "
                "again (--again), which is another release and paid for anew"
            )
        if again:
            requests = [request.model_copy(update={"fresh": True}) for request in requests]
        booked = llm.booked_in(own)
        plan = PublicationPlan.of(
            booked, documents, requests, epsilon=epsilon, delta=delta, weights=weights
        )
        release = 1 if before is None else before.release + 1
        name = llm.booked_under(documents)
        # What was begun in a ledger is not ended without one, nor what is private otherwise.
        digest = f"{plan.digest} of {name}, {llm.config.adjacency.value}, {llm.is_booked}"
        if before is not None and was_left(folder, before.release, digest):
            ReleaseFolder(folder, before.release, digest).end()
            return before
        files = ReleaseFolder(folder, release, digest)
        _require_left(plan, files)
        items, lost = list[PublishedItem](), list[str]()
        for number, part in enumerate(plan.parts):
            _tell(on_progress, number, plan)
            if files.is_lost(number):
                lost.append(part.what)
                continue
            item = files.item(number)
            if item is None:
                paying = booked.booked_in(None, partial(files.begun, number))
                item = _released(paying, documents, plan, number)
                files.write(number, item)
            items.append(item)
        _tell(on_progress, len(plan.parts), plan)
        for number, item in enumerate(beside, len(plan.parts)):
            files.write(number, item)
        numbers = [*(at for at in range(len(plan.parts)) if not files.is_lost(at))]
        numbers += range(len(plan.parts), len(plan.parts) + len(beside))
        bundle = Bundle(
            corpus=name,
            unit=unit or unit_field_of(documents) or _UNIT,
            epsilon=epsilon,
            delta=delta,
            rho=plan.rho,
            adjacency=llm.config.adjacency.value,
            published=datetime.now(UTC).date().isoformat(),
            release=release,
            items=(*items, *beside),
            lost=tuple(lost),
        )
        if before is not None:
            bundle = replace(bundle, changes=changes(before, bundle))
        with on_disk(folder):
            bundle.write(folder, [files.file(number) for number in numbers])
            files.end()
    return bundle


@contextmanager
def _own_ledger(
    llm: PrivateContextLLM,
    documents: Documents,
    requests: Sequence[Request],
    epsilon: float,
    delta: float,
) -> Iterator[Ledger]:
    """A ledger for a model that has none. It knows what units spend, so it goes at the end."""
    answers = sum(
        one.kind in ("answer", "survey", "summary") or (one.kind == "column" and not one.labels)
        for one in requests
    )
    with scratch_folder("publication") as folder, Ledger(folder / "ledger.sqlite") as own:
        own.set_budget(
            corpus=llm.booked_under(documents),
            epsilon=epsilon,
            delta=delta,
            answers=max(1, answers),
        )
        yield own


def _require_left(plan: PublicationPlan, files: ReleaseFolder) -> None:
    """Refuse what the ledger could not pay to its end.

    Raises:
        BudgetExceededError: It has less left.
    """
    parts = enumerate(plan.parts)
    asked = math.fsum(part.rho or 0.0 for at, part in parts if not files.was_begun(at))
    left = plan.budget_left
    if left is not None and left < asked * (1 - 1e-12):
        raise refused(charge(exact("rho", asked)), charge(exact("rho", left)), "this publication")


def _released(
    llm: PrivateContextLLM, documents: Documents, plan: PublicationPlan, number: int
) -> PublishedItem:
    """The item of a request. It is paid for by the time that this returns."""
    request = plan.requests[number]
    result = asking(llm, plan.epsilons[number], plan.delta).run(request, documents)
    assert not isinstance(result, PrivateLabel)  # it is no kind that the plan takes
    supported: bool | None = None
    if isinstance(result, PrivateAnswer):
        numbers = result.public_numbers()
        supported = result.supported if result.text else False
    elif isinstance(result, LabelHead):
        numbers = result.as_dict()
    else:
        numbers = TypeAdapter(type(result)).dump_python(result, mode="json")
    return PublishedItem(
        kind=request.kind or "answer",
        question=request.question,
        text=result.text,
        numbers=numbers,
        supported=supported,
        before=result.from_memory,
        **cost_of(result),
    )


def remembered_items(entries: Iterable[Entry]) -> list[PublishedItem]:
    """Answers that were released before, and cost nothing more.

    Args:
        entries: Of the memory of the corpus; counts are left out. Their questions become public.
    """
    return [
        PublishedItem(
            kind="answer",
            question=entry.question,
            text=entry.answer,
            numbers={"released": entry.time.date().isoformat()},
            epsilon=entry.epsilon,
            delta=entry.delta,
            rho=0.0,
            supported=True,
            before=True,
        )
        for entry in entries
        if entry.whole and not entry.numbers
    ]


def records_item(made: Synthesis) -> PublishedItem:
    """The records of a finished synthesis, which had a budget of its own."""
    records = [{"about": one.key or one.label, "text": one.text} for one in made.records]
    return PublishedItem(
        kind="records",
        question=None,
        text=f"{len(records)} synthetic records",
        numbers={"records": records},
        epsilon=made.epsilon,
        delta=made.delta,
        rho=0.0,
        before=True,
    )


def changes(before: Bundle, after: Bundle) -> tuple[str, ...]:
    """What is new, gone, or other than before, a line for each question. Public."""
    old, new = (
        {(one.kind, one.asked): one.released for one in each.items} for each in (before, after)
    )
    found = [
        f"{'new' if (kind, asked) not in old else 'other'}: {asked}"
        for (kind, asked), released in new.items()
        if old.get((kind, asked)) != released
    ]
    return (*found, *(f"gone: {asked}" for kind, asked in old if (kind, asked) not in new))


def _tell(on_progress: Progress | None, done: int, plan: PublicationPlan) -> None:
    if on_progress is not None:
        on_progress(done, len(plan.parts))
