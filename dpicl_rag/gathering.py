"""From documents or a retriever to experts that can pay: retrieval, reservation, charge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

from dpicl_rag.accounting.stability import DIRECT, Stability
from dpicl_rag.charging import Charge, FixedCharge, IndividualCharge
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.documents import Document, as_documents
from dpicl_rag.errors import ConfigurationError, MissingDocumentsError
from dpicl_rag.experts import ONE_EACH, RANDOM_GROUPS, Expert, one_each, random_groups
from dpicl_rag.ledger import Reservation
from dpicl_rag.retrieval.base import Retriever
from dpicl_rag.retrieval.private import PrivateRetriever, PrivateSearch

Documents = Iterable[Document | str] | Retriever | PrivateRetriever
"""Documents, plain strings (one unit each), or a retriever to fetch them with."""

Reserve = Callable[[float, float, Sequence[str] | None], Reservation | None]
"""Holds rho (at least the second number) for units, or for all alike; None without a ledger."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is publicly known about where experts come from.

    Attributes:
        stability: From the corpus to the experts.
        rho: zCDP rho that the search itself costs any unit at most; 0 for most retrievers.
    """

    stability: Stability
    rho: float


@dataclass(frozen=True, slots=True, repr=False)
class Gathered:
    """Experts, how they pay, and what gives back the rest."""

    experts: list[Expert] = field(repr=False)
    charge: Charge
    close: Callable[[], None]


def describe(documents: Documents, config: PrivacyConfig) -> Source:
    """Stability and charge of a source, before anything is looked at.

    Raises:
        ConfigurationError: The source does not fit the configuration.
        MissingDocumentsError: ``documents`` is None.
    """
    if documents is None:
        raise MissingDocumentsError(
            "no documents were given; pass a list (an empty one asks the public model)"
        )
    if isinstance(documents, str):
        raise ConfigurationError("documents must be a list, not one string")
    stage = ONE_EACH if config.groups is None else RANDOM_GROUPS
    if not isinstance(documents, (Retriever, PrivateRetriever)):
        return Source(DIRECT.then(stage), 0.0)
    if config.privacy_unit != "document":
        raise ConfigurationError(
            "a retriever scores the units of its corpus, so the privacy unit is chosen when "
            "documents are put there; leave privacy_unit out"
        )
    rho = documents.rho(config.adjacency) if isinstance(documents, PrivateRetriever) else 0.0
    return Source(documents.stability.then(stage), rho)


def gather(
    question: str,
    documents: Documents,
    config: PrivacyConfig,
    reserve: Reserve,
    *,
    individual: bool,
    budget: float,
    search_rho: float,
    cost: float,
) -> Gathered:
    """Fetch, reserve, pay for the search, and build the experts.

    A fixed budget is reserved before anything is looked at, so that one that cannot pay refuses
    first. Individual budgets belong to units, which must be known; a unit that cannot pay is
    silent and causes no error.

    Args:
        question: Public text.
        documents: Where experts come from.
        config: Public settings.
        reserve: Holds the budget.
        individual: Whether each unit pays for itself.
        budget: zCDP rho of the whole answer, search included.
        search_rho: The part of it that the search costs any unit at most.
        cost: zCDP rho of one draw in its worst case.

    Raises:
        BudgetExceededError: The ledger cannot pay for the search and one draw.
        ConfigurationError: The ledger's budget of a unit is below the price of the search.
    """
    if not individual:
        return _fixed(question, documents, config, reserve, budget, search_rho, cost)
    search: PrivateSearch | None = None
    if isinstance(documents, PrivateRetriever):
        search = documents.search(question)
        units = search.units
        experts: list[Expert] = []
    else:
        experts = one_each(_fetch(question, documents, config))
        units = [unit for expert in experts for unit in expert.units]
    reservation = reserve(budget, search_rho + cost, units)
    close = _nothing if reservation is None else reservation.close
    try:
        limits = None if reservation is None else reservation.limits
        left = [budget] * len(units) if limits is None else list(limits)
        bound = budget if reservation is None else reservation.rho
        if search is not None:
            if bound < search_rho:
                # Otherwise no unit could ever be counted, and nobody would be told why.
                raise ConfigurationError(
                    f"the search costs a unit rho {search_rho:.4g}, and the ledger's budget lets a "
                    f"unit spend {bound:.4g}; raise the corpus's unit budget with `dpicl-rag "
                    "budget set`, or give the search more noise (sigma)"
                )
            # Whether a unit is counted depends on its own spend and on public numbers only.
            found = search.choose([limit >= search_rho for limit in left])
            if reservation is not None:
                reservation.commit(search_rho, found.unit_rho)
            left = [max(0.0, a - b) for a, b in zip(left, found.unit_rho, strict=True)]
            experts = one_each(found.documents)
        places = {unit: place for place, unit in enumerate(units)}
        chosen = [places[expert.units[0]] for expert in experts]
        charge = IndividualCharge(
            torch.tensor([left[place] for place in chosen], dtype=torch.float64),
            bound=bound,
            worst=cost,
            spent=search_rho,
            reservation=reservation,
            places=chosen,
            units=len(units),
        )
    except BaseException:
        close()
        raise
    return Gathered(experts, charge, close)


def _fixed(
    question: str,
    documents: Documents,
    config: PrivacyConfig,
    reserve: Reserve,
    budget: float,
    search_rho: float,
    cost: float,
) -> Gathered:
    reservation = reserve(budget, search_rho + cost, None)
    close = _nothing if reservation is None else reservation.close
    try:
        held = budget if reservation is None else reservation.rho
        charge = FixedCharge(held, cost, reservation)
        if isinstance(documents, PrivateRetriever):
            search = documents.search(question)
            charge.pay_search(search_rho)
            found = search.choose().documents
        else:
            found = _fetch(question, documents, config)
        groups = config.groups
        experts = one_each(found) if groups is None else random_groups(found, groups)
    except BaseException:
        close()
        raise
    return Gathered(experts, charge, close)


def _fetch(
    question: str, documents: Iterable[Document | str] | Retriever, config: PrivacyConfig
) -> list[Document]:
    if isinstance(documents, Retriever):
        documents = documents.retrieve(question)
    return as_documents(documents, config.privacy_unit)


def _nothing() -> None:
    """End an answer that holds nothing."""
