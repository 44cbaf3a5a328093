"""Units that take part in a release which all that take part pay alike.

All units pay, as long as the corpus has budget for that. Then each pays for itself, and those take
part that can pay for all of it: a function of a unit's own spend and of public numbers, as a
privacy filter needs. The others move no count, no error tells of them, and the result says that
some may be left out (docs/privacy.md, "Counts, tallies and surveys").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dpicl_rag.accounting import DIRECT
from dpicl_rag.answering.answer_plan import accounts_individually
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.documents import Document
from dpicl_rag.errors import DeltaSpentError
from dpicl_rag.ledger import Account
from dpicl_rag.retrieval.retrievers import Documents, corpus_name_of
from dpicl_rag.retrieval.search import Search
from dpicl_rag.retrieval.unit_vectors import UnitVectors

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class TakingPart(Generic[T]):
    """Units that take part, and who pays.

    Attributes:
        units: They, as they are read. Private.
        account: Pays for all of them alike.
        complete: Whether every unit takes part, by public numbers.
        rate: Public probability with which coins kept a unit that a search found.
    """

    units: T = field(repr=False)
    account: Account
    complete: bool
    rate: float = 1.0


@contextmanager
def _opened(
    plan: Plan[Any], documents: Documents, run: PrivateRun, units: Sequence[str], *, gaussian: bool
) -> Iterator[tuple[Account, bool]]:
    """The account of a release, and whether every unit takes part, by public numbers.

    Args:
        plan: Its price.
        documents: Where the units are from.
        run: Pays.
        units: Names of all that may take part. Private.
        gaussian: All that it pays for is Gaussian noise on counts.

    Raises:
        BudgetExceededError: A budget of the ledger cannot pay.
        ConfigurationError: The ledger's budget of a unit is below the price.
        DeltaSpentError: No budget is left for thresholds.
    """
    source, delta = corpus_name_of(documents), plan.threshold_delta
    each = plan.individual or (
        accounts_individually(run.config, DIRECT) and not run.all_can_pay(plan.rho, source)
    )
    complete = not each or run.every_unit_has(plan.rho, source)
    paying = units if each else None
    with run.open_account(
        documents, rho=plan.rho, units=paying, delta=delta, gaussian=gaussian
    ) as account:
        if not account.pays_thresholds(delta):
            raise DeltaSpentError
        account.require(plan.rho, "it costs", "lower epsilon")
        yield account, complete


@contextmanager
def paying_vectors(
    plan: Plan[Any], documents: Documents, run: PrivateRun, vectors: UnitVectors
) -> Iterator[TakingPart[UnitVectors]]:
    """The vectors of the units that take part; see `_opened` for errors."""
    named = vectors.named()
    opened = _opened(plan, documents, run, [*named.values()], gaussian=plan.gaussian)
    with opened as (account, complete):
        if account.individual:
            able = account.able(plan.rho)
            account.pay_alike(able)
            vectors = vectors.of([one for one, takes in zip(named, able, strict=True) if takes])
        yield TakingPart(vectors, account, complete)


@contextmanager
def paying_search(
    plan: Plan[Any], documents: Documents, run: PrivateRun, search: Search, question: str
) -> Iterator[TakingPart[Mapping[str, Sequence[Document]]]]:
    """The units that a search finds, and that take part; it is paid for. See `_opened` for errors.

    Args:
        plan: The price of the release.
        documents: Where the units are from.
        run: Pays, and has the coins.
        search: Finds units.
        question: What it searches with. Public.
    """
    candidates = search.search(question)
    gaussian = plan.gaussian and search.gaussian
    opened = _opened(plan, documents, run, candidates.units, gaussian=gaussian)
    with opened as (account, complete):
        able = account.able(plan.rho) if account.individual else None
        found = candidates.choose(able, run.randomness)
        if plan.search_rho > 0:
            account.pay(plan.search_rho, None if able is None else found.unit_rho)
        units = found.units
        if able is not None:
            # A search may find one that is not counted, and does not pay.
            takes = dict(zip(candidates.units, able, strict=True))
            units = {name: own for name, own in units.items() if takes[name]}
            account.pay_alike([name in units for name in candidates.units])
        yield TakingPart(units, account, complete, found.rate)


@contextmanager
def paying_documents(
    plan: Plan[Any],
    documents: Documents,
    run: PrivateRun,
    units: Mapping[str, Sequence[Document]],
) -> Iterator[TakingPart[Mapping[str, Sequence[Document]]]]:
    """The units that take part, of all; see `_opened` for errors."""
    with _opened(plan, documents, run, [*units], gaussian=plan.gaussian) as (account, complete):
        if account.individual:
            able = account.able(plan.rho)
            account.pay_alike(able)
            units = {name: units[name] for name, one in zip(units, able, strict=True) if one}
        yield TakingPart(units, account, complete)
