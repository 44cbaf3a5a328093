"""From a retriever to experts that can pay: search, reservation, filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.privacy_filters import Filter, FixedFilter, IndividualFilter
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Input
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.ledger import Reservation
from dpicl_rag.mechanisms.base import Mechanism
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.base import Retriever
from dpicl_rag.retrieval.count import NoisyCount

Reserve = Callable[[float, float, Sequence[str] | None], Reservation | None]
"""Holds rho (at least the second number) for units, or for all alike; None without a ledger."""


@dataclass(frozen=True, slots=True, repr=False)
class Expert:
    """The passages that one expert reads, and the units they came from."""

    units: tuple[str, ...] = field(repr=False)
    passages: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class Gathered:
    """Inputs of the experts, their mechanism, their filter, and the return of unspent budget.

    ``count`` is the released number of units, if any.
    """

    inputs: list[Input] = field(repr=False)
    mechanism: Mechanism
    spend: Filter
    count: NoisyCount | None
    close: Callable[[], None]


def one_each(units: Mapping[str, Sequence[Document]]) -> list[Expert]:
    """One expert per unit, its passages in the order given. Stability: ``DIRECT``."""
    return [
        Expert((unit,), tuple(own.text for own in passages)) for unit, passages in units.items()
    ]


def random_groups(
    units: Mapping[str, Sequence[Document]], groups: int, randomness: Randomness
) -> list[Expert]:
    """``groups`` experts; each unit joins one by its own secret coin. Stability: ``RANDOM_GROUPS``.

    The number of groups is public. An empty one has no passages, and says nothing.
    """
    # Groups by rank or by sorted id would shift every group when a unit is inserted.
    members: list[list[Expert]] = [[] for _ in range(groups)]
    for expert in one_each(units):
        members[randomness.below(groups)].append(expert)
    return [
        Expert(
            tuple(unit for expert in group for unit in expert.units),
            tuple(passage for expert in group for passage in expert.passages),
        )
        for group in members
    ]


@enough_memory()
def gather(
    question: str,
    retriever: Retriever,
    plan: Plan,
    reserve: Reserve,
    randomness: Randomness,
    digest: Callable[[Sequence[str]], Input],
) -> Gathered:
    """Search, reserve, pay for the search, and build the experts.

    An expert with nothing to read has nothing to say: it is left out, weighs nothing and pays
    nothing. That follows from its own unit alone.

    A fixed budget is reserved before anything is looked at, so that one that cannot pay refuses
    first. Individual budgets belong to units, which must be known; a unit that cannot pay is
    silent and causes no error.

    Args:
        question: Public text.
        retriever: Where experts come from.
        plan: What the answer may cost.
        reserve: Holds the budget.
        randomness: Coins of the search and of random groups.
        digest: What one expert reads of its passages, see ``LanguageModel.digest``.

    Raises:
        BudgetExceededError: The ledger cannot pay for the search and one draw.
        ConfigurationError: The ledger's budget of a unit is below the price of the search.
        ModelError: There is not enough memory.
    """
    search = retriever.search(question) if plan.individual else None
    units = None if search is None else search.units
    aside = plan.support_rho
    reservation = reserve(plan.rho, plan.search_rho + aside + plan.mechanism.rho, units)
    close: Callable[[], None] = (lambda: None) if reservation is None else reservation.close

    def pay_search(unit_rho: list[float] | None) -> None:
        if reservation is not None and plan.search_rho > 0:
            reservation.commit(plan.search_rho, unit_rho)

    try:
        bound = plan.rho if reservation is None else reservation.rho
        left = None if units is None else _limits(reservation, len(units), plan)
        # Whether a unit is counted depends on its own spend and on public numbers only.
        admitted = None if left is None else [limit >= plan.search_rho for limit in left]
        search = search or retriever.search(question)
        if units is None:
            pay_search(None)
        found = search.choose(admitted, randomness)
        if units is not None:
            pay_search(found.unit_rho)
        experts = (
            one_each(found.units)
            if plan.groups is None
            else random_groups(found.units, plan.groups, randomness)
        )
        digested = [(expert, digest(expert.passages)) for expert in experts]
        read = [(expert, own) for expert, own in digested if own]
        mechanism = plan.mechanism_for(found.count)
        cost, beside = mechanism.rho, {"search_rho": plan.search_rho, "aside": aside}
        if units is None or left is None:
            spend: Filter = FixedFilter(bound, cost, reservation, **beside)
        else:
            left = [max(0.0, a - b) for a, b in zip(left, found.unit_rho, strict=True)]
            places = {unit: place for place, unit in enumerate(units)}
            chosen = [places[expert.units[0]] for expert, _ in read]
            spend = IndividualFilter(
                torch.tensor([left[place] for place in chosen], dtype=torch.float64),
                bound=bound,
                worst=cost,
                reservation=reservation,
                places=chosen,
                units=len(units),
                **beside,
            )
    except BaseException:
        close()
        raise
    return Gathered([own for _, own in read], mechanism, spend, found.count, close)


def _limits(reservation: Reservation | None, units: int, plan: Plan) -> list[float]:
    """Limits of the units. Private."""
    if reservation is None or reservation.limits is None:
        return [plan.rho] * units
    if reservation.rho < plan.search_rho:
        # Otherwise no unit could ever be counted, and no error would say why.
        raise ConfigurationError(
            f"the search costs a unit rho {plan.search_rho:.4g}, and the ledger's budget lets "
            f"a unit spend {reservation.rho:.4g}; raise the corpus's unit budget with `dpicl-rag "
            "budget set`, or give the search more noise (sigma)"
        )
    return reservation.limits
