"""Units that take part in a release which all that take part pay alike.

All units pay, as long as the corpus has budget for that. Then each pays for itself, and those take
part that can pay for all of it: a function of a unit's own spend and of public numbers, as a
privacy filter needs. The others move no count, no error tells of them, and the result says that
some may be left out (docs/privacy.md, "Counts of units").
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

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

K = TypeVar("K")


@dataclass(frozen=True, slots=True, repr=False)
class TakingPart:
    """Those that take part, and what they pay from.

    Attributes:
        account: Pays for all of them alike.
        complete: Whether every unit takes part, by public numbers.
        able: Of each unit, in the order given, whether it does; None where all do. Private.
    """

    account: Account
    complete: bool
    able: Sequence[bool] | None = field(repr=False)

    def among(self, units: Collection[K]) -> list[K]:
        """Those of all units, in the order given, that take part. Private."""
        if self.able is None:
            return list(units)
        return [unit for unit, takes in zip(units, self.able, strict=True) if takes]


@contextmanager
def taking_part(
    plan: Plan[Any],
    documents: Documents,
    run: PrivateRun,
    units: Sequence[str],
    *,
    gaussian: bool | None = None,
) -> Iterator[TakingPart]:
    """Open the account of a release.

    Args:
        plan: Its price.
        documents: Where the units are from.
        run: Pays.
        units: Names of all that may take part. Private.
        gaussian: All that it pays for is Gaussian noise on counts; None is as the plan says.

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
    with run.open_account(
        documents,
        rho=plan.rho,
        units=units if each else None,
        delta=delta,
        gaussian=plan.gaussian if gaussian is None else gaussian,
    ) as account:
        if not account.pays_thresholds(delta):
            raise DeltaSpentError
        account.require(plan.rho, "it costs", "lower epsilon")
        able = account.able(plan.rho) if each else None
        account.pay_alike(able or ())
        yield TakingPart(account, complete, able)


@contextmanager
def vectors_taking_part(
    plan: Plan[Any], documents: Documents, run: PrivateRun, vectors: UnitVectors
) -> Iterator[tuple[TakingPart, UnitVectors]]:
    """The same of units with vectors; see `taking_part`."""
    named = vectors.named()
    with taking_part(plan, documents, run, [*named.values()]) as some:
        yield some, vectors if some.able is None else vectors.of(some.among(named))


@contextmanager
def found_taking_part(
    plan: Plan[Any], documents: Documents, run: PrivateRun, search: Search, question: str
) -> Iterator[tuple[TakingPart, Mapping[str, Sequence[Document]], float]]:
    """Those that a search finds, for which it is paid, and the rate of coins that kept them.

    A search may find a unit that is not counted and pays nothing: that takes no part, either.
    """
    every = search.search(question)
    gaussian = plan.gaussian and search.gaussian
    with taking_part(plan, documents, run, every.units, gaussian=gaussian) as some:
        found = every.choose(some.able, run.randomness)
        if plan.search_rho > 0:
            some.account.pay(plan.search_rho, None if some.able is None else found.unit_rho)
        takes = set(some.among(every.units))
        units = {name: own for name, own in found.units.items() if name in takes}
        some.account.pay_alike([name in units for name in every.units])
        yield some, units, found.rate
