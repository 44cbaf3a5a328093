"""Experts of a search that can pay: candidates, reservation, filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.answering.question import Question
from dpicl_rag.documents import Document
from dpicl_rag.errors import BudgetExceededError, DeltaSpentError, StoppedError
from dpicl_rag.language_models.base import Input, Progress
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.readers.notes import UnitReading
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.ledger import Account
from dpicl_rag.mechanisms.privacy_filters import AnswerFilter, privacy_filter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import Charged
from dpicl_rag.retrieval.base import NoisyCount
from dpicl_rag.retrieval.search import Search

M = TypeVar("M", bound=Charged)

_DIGESTED = 256  # units between two turns of others: more than an answer reads
_READ_AHEAD = 64  # units that are read in one go before anybody asks


@dataclass(frozen=True, slots=True, repr=False)
class Expert:
    """The passages that one expert reads, and the units they came from."""

    units: tuple[str, ...] = field(repr=False)
    passages: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class Experts(Generic[M]):
    """Inputs of the experts, their mechanism, their filter, and the return of unspent budget.

    ``count`` is the released number of units, if any, and ``rate`` that of the coins which kept
    them; ``passages`` are what inputs were made of; ``thresholds`` is whether a ledger pays for
    those of whole answers. Public, but for inputs and passages.
    """

    inputs: list[Input] = field(repr=False)
    mechanism: M
    spend: AnswerFilter
    count: NoisyCount | None
    close: Callable[[], None]
    passages: Sequence[Sequence[str]] = field(default=(), repr=False)
    thresholds: bool = True
    rate: float = 1.0

    @contextmanager
    def paying(self) -> Iterator[None]:
        """Draw in the block: the account is closed after it, and a stop tells what was paid."""
        try:
            yield
        except StoppedError as stopped:
            stopped.rho = self.spend.rho
            raise
        finally:
            self.close()


def one_each(units: Mapping[str, Sequence[Document]]) -> list[Expert]:
    """One expert per unit, its passages in the order given. Stability: ``DIRECT``."""
    return [
        Expert((unit,), tuple(own.text for own in passages)) for unit, passages in units.items()
    ]


def random_groups(units: Sequence[Expert], groups: int, randomness: Randomness) -> list[Expert]:
    """``groups`` experts; each unit joins one by its own secret coin. Stability: ``RANDOM_GROUPS``.

    The number of groups is public. An empty one has no passages, and says nothing.
    """
    # Groups by rank or by sorted id would shift every group when a unit is inserted.
    members: list[list[Expert]] = [[] for _ in range(groups)]
    for expert in units:
        members[randomness.below(groups)].append(expert)
    return [
        Expert(
            tuple(unit for expert in group for unit in expert.units),
            tuple(passage for expert in group for passage in expert.passages),
        )
        for group in members
    ]


class OpenAccount(Protocol):
    """Opens the account of an answer, see `dpicl_rag.ledger.open_account`."""

    def __call__(
        self,
        *,
        rho: float,
        at_least: float | None,
        units: Sequence[str] | None,
        delta: float,
        gaussian: bool,
    ) -> Account:
        """Open it."""
        ...


@enough_memory()
def gather(
    questions: Sequence[str],
    search: Search,
    plan: Plan[M],
    open_account: OpenAccount,
    randomness: Randomness,
    digest: Callable[[Sequence[str]], Input],
    reading: UnitReading | None = None,
    on_progress: Progress | None = None,
) -> Experts[M]:
    """Search, open the account, pay for the search, and build the experts.

    An expert with nothing to read has nothing to say: it is left out, weighs nothing and pays
    nothing. That follows from its own unit alone.

    A fixed budget is reserved before anything is looked at, so that one that cannot pay refuses
    first. Individual budgets belong to units, which must be known; a unit that cannot pay is
    silent and causes no error.

    Args:
        questions: What is searched with: one question in several wordings. Public.
        search: Finds the units.
        plan: What the answer may cost.
        open_account: Holds the budget.
        randomness: Coins of the search and of random groups.
        digest: What one expert reads of its passages, see ``LanguageModel.digest``.
        reading: What a reader makes of each unit's passages, which then stand in their place.
        on_progress: Called with the part of the units that it has read.

    Raises:
        EngineUnavailableError: The reader does not answer; the search is paid for.
        BudgetExceededError: The ledger cannot pay for the search and one draw.
        DeltaSpentError: Its pool cannot pay for thresholds, and no token may be drawn.
        ConfigurationError: The ledger's budget of a unit is below the price of the search.
        ModelError: There is not enough memory.
        StoppedError: It was ended while units were read; the search is paid for.
    """
    candidates = search.search(*questions) if plan.individual else None
    units = None if candidates is None else candidates.units
    account = _opened(open_account, plan, units, gaussian=plan.gaussian and search.gaussian)
    thresholds = account.pays_thresholds(plan.threshold_delta)
    with ExitStack() as stack:
        stack.enter_context(account)
        if not thresholds and plan.only_agreement:
            raise DeltaSpentError
        account.require(plan.search_rho, "the search costs", "give the search more noise (sigma)")
        # Whether a unit is counted depends on its own spend and on public numbers only.
        admitted = account.able(plan.search_rho) if account.individual else None
        candidates = candidates or search.search(*questions)
        if units is None and plan.search_rho > 0:
            account.pay(plan.search_rho)
        found = candidates.choose(admitted, randomness)
        if units is not None and plan.search_rho > 0:
            account.pay(plan.search_rho, found.unit_rho)
        experts = one_each(found.units)
        if reading is not None:
            # Before groups are made: a reply sees one unit.
            names = [unit for expert in experts for unit in expert.units]
            replies = reading([expert.passages for expert in experts], on_progress, names)
            experts = [replace(e, passages=own) for e, own in zip(experts, replies, strict=True)]
        if plan.groups is not None:
            experts = random_groups(experts, plan.groups, randomness)
        read = [(expert, own) for expert, own in _digested(experts, digest) if own]
        mechanism = plan.mechanism_for(found.count)
        places = {unit: place for place, unit in enumerate(units or ())}
        spend = privacy_filter(
            account,
            [places[expert.units[0]] for expert, _ in read] if account.individual else (),
            mechanism.rho,
            search_rho=plan.search_rho,
            aside=plan.support_rho,
        )
        stack.pop_all()  # whoever draws closes it
    inputs, passages = [own for _, own in read], [expert.passages for expert, _ in read]
    return Experts(
        inputs, mechanism, spend, found.count, account.close, passages, thresholds, found.rate
    )


def _digested(
    experts: Sequence[Expert], digest: Callable[[Sequence[str]], Input]
) -> Iterator[tuple[Expert, Input]]:
    for at, expert in enumerate(experts, start=1):
        yield expert, digest(expert.passages)
        if at % _DIGESTED == 0:
            give_way()


def _opened(
    open_account: OpenAccount,
    plan: Plan[Charged],
    units: Sequence[str] | None,
    *,
    gaussian: bool,
) -> Account:
    """An account for all that an answer may cost, or for what its budget is kept as."""
    opened = partial(open_account, units=units, delta=plan.threshold_delta, gaussian=gaussian)
    if units is None:
        first = plan.search_rho + plan.support_rho + plan.mechanism.rho
        return opened(rho=plan.rho, at_least=first)
    try:
        return opened(rho=plan.rho, at_least=None)
    except BudgetExceededError:
        if plan.least_rho is None or plan.least_rho >= plan.rho:
            raise
    return opened(rho=plan.least_rho, at_least=None)


def read_ahead(
    question: Question,
    experts: Sequence[Expert],
    on_progress: Progress | None = None,
) -> int:
    """Read experts of one passage into the model's prefix cache, before anybody asks.

    Args:
        question: Any, for a model that reads, and keeps what it has read.
        experts: Those of several passages are left out: their order is the question's.
        on_progress: Called with the part that is done.

    Returns:
        How many were read. Private.
    """
    single = [expert for expert in experts if len(expert.passages) == 1]
    # Of similar lengths together, so that no pass is mostly padding.
    single.sort(key=lambda expert: len(expert.passages[0]))
    for first in range(0, len(single), _READ_AHEAD):
        some = single[first : first + _READ_AHEAD]
        digested = (question.digest(expert.passages) for expert in some)
        read(question.model, question.prompt, [own for own in digested if own], room=0)
        if on_progress is not None:
            on_progress(min(1.0, (first + _READ_AHEAD) / len(single)), 1.0)
    return len(single)
