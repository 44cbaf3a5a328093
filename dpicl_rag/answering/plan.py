"""Plans of private releases: their parts, each with its price, and how they are drawn.

A plan is fixed before anything private is looked at. What it prints is what a run pays from.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from dpicl_rag.accounting.prices import Price, PricedPlan
from dpicl_rag.answering.ladder import Ladder
from dpicl_rag.answering.support import SupportCount
from dpicl_rag.mechanisms.selection import Charged, ExponentialMechanism
from dpicl_rag.retrieval.base import NoisyCount
from dpicl_rag.retrieval.search import Search

# Nats that lift a word from one in a million to odds of 4 nats, as names that a model has never
# heard need it. Divided by lambda that is 15, 29 and 53 units at epsilon 8, 4 and 2; measured are
# 14, 26 and 48 (benchmarks/README.md, "how many documents must agree").
_NEWS = math.log(1e6) + 4.0

M_co = TypeVar("M_co", bound=Charged, covariant=True)


class FewUnitsWarning(UserWarning):
    """A setting leaves an answer fewer units than it needs; see `Plan.warn_of_few_units`."""


@dataclass(frozen=True, slots=True)
class PricedOutcome:
    """The price of an answer by how many units say the same, and all others differ. Public.

    Attributes:
        units: How many say the same.
        chance: Probability that what they say is released as a whole answer.
        rho: zCDP that is charged on average, to units that have a vote; the others pay less.
    """

    units: int
    chance: float
    rho: float


@dataclass(frozen=True, slots=True)
class Plan(PricedPlan, Generic[M_co]):
    """Public numbers of one answer, label, tally or survey. No private text has a part in them.

    An answer that public knowledge proposes has the same bound: its search takes less of it, and it
    may be counted twice. One from memory costs nothing.

    Attributes:
        mechanism: How a token, a label or counts are drawn, and what a draw costs.
        individual: Whether each unit pays for what it reveals, or all pay the same.
        epsilon: The whole is (epsilon, delta)-DP.
        delta: See ``epsilon``.
        rho: The whole, zCDP: the most that its parts cost any unit together.
        parts: What it pays for, in the order of paying; the run pays these and no others.
        least_rho: What a ledger must hold of ``rho``, where each unit pays for itself: a budget of
            the same epsilon is kept as a little less, since a part of its delta is for thresholds.
            None where that is all of it.
        support: The count of experts that support an answer, or none.
        groups: Number of random groups; None gives each unit an expert of its own.
        takes_priors: Whether the label's experts are read without a question too.
        counted: Makes the mechanism for a released number of units that were found; None where
            strength does not follow it.
        weighs_news: Whether the mechanism's strength says how many units must agree on a word.
        ladder: Counts of whole answers, each with its threshold; None where tokens are drawn from
            the start.
        only_agreement: Whether no token is drawn where experts do not agree.
        gaussian: Whether all that it pays for is Gaussian noise on counts, but for the search.
        budget_left: What the ledger has left for the corpus and the caller, zCDP rho; None without
            a limit, and where nobody asked.
        calls: About how many calls a reader is asked for; None without a reader, and where only the
            documents tell.
        steps: Questions that are asked one after the other, each for a price of its own; none where
            there is one.
    """

    mechanism: M_co
    individual: bool
    epsilon: float
    delta: float
    rho: float
    parts: tuple[Price, ...]
    least_rho: float | None = None
    support: SupportCount | None = None
    groups: int | None = None
    takes_priors: bool = False
    counted: Callable[[NoisyCount], M_co] | None = None
    weighs_news: bool = False
    ladder: Ladder | None = None
    only_agreement: bool = False
    gaussian: bool = False
    budget_left: float | None = None
    calls: int | None = None
    steps: tuple[str, ...] = ()

    @property
    def search_rho(self) -> float:
        """The part of ``rho`` for finding the units, and how many they are."""
        return self.price("search")

    @property
    def support_rho(self) -> float:
        """The part of ``rho`` for counts of units that support the answer."""
        return self.price("support")

    @property
    def agreement_rho(self) -> float:
        """The part of ``rho`` for counts of whole sentences, each expert's own.

        Only units that have a vote pay, where accounting is individual.
        """
        return self.price("agreement")

    @property
    def tokens_rho(self) -> float:
        """The part of ``rho`` for words, token by token: what is left."""
        return self.price("words")

    @property
    def token_rho(self) -> float:
        """Price of one draw for a unit that has all of it to tell, zCDP rho."""
        return self.mechanism.rho

    @property
    def threshold_delta(self) -> float:
        """Delta of all thresholds together."""
        return sum(part.delta for part in self.parts)

    @property
    def thresholds(self) -> tuple[int, ...]:
        """About how many documents must say the same, at each count of whole sentences."""
        return self.ladder.thresholds if self.ladder else ()

    @property
    def outcomes(self) -> tuple[PricedOutcome, ...]:
        """What is paid where no two units say the same, where just enough do, and twice as many.

        Of one sentence. Where tokens follow, they may take all that is left.
        """
        if self.ladder is None:
            return ()
        found = []
        for units in dict.fromkeys((1, self.ladder.units, 2 * self.ladder.units)):
            chance, counted = self.ladder.outcome(units)
            rho = self.search_rho + counted
            if not self.only_agreement:
                rho += (1 - chance) * (self.support_rho + self.tokens_rho)
            found.append(PricedOutcome(units, chance, min(rho, self.rho)))
        return tuple(found)

    @property
    def units_to_agree(self) -> int | None:
        """About how many units must say the same; None where settings have no such number."""
        if self.ladder:
            return self.ladder.units  # fewer than tokens need
        if self.weighs_news and isinstance(self.mechanism, ExponentialMechanism):
            return units_needed(self.mechanism)
        return None

    @property
    def answers_left(self) -> int | None:
        """Answers at this price that the budget surely pays for; None without a limit."""
        if self.budget_left is None or not self.rho:
            return None
        return int(self.budget_left / self.rho)

    def mechanism_for(self, count: NoisyCount | None) -> M_co:
        """The mechanism, no stronger than the units that were found need it.

        Sound at no price: a filter charges whatever strength was used, and a strength may follow
        from anything that was released (docs/privacy.md, "Strength by need").
        """
        if self.counted is None or count is None:
            return self.mechanism
        return self.counted(count)

    def warn_of_few_units(self, search: Search) -> None:
        """Warn where settings leave fewer units than an answer needs.

        A function of public numbers: nothing is searched, and what a threshold or a list finds has
        no part in it. Experts that cannot carry a word together leave the answer to the public
        model: it is fluent, and wrong.
        """
        needed = self.units_to_agree
        found = (search.aim, _remedy(search))
        for most, remedy in (found, (self.groups, "leave groups out")):
            if most is not None and needed is not None and most < needed:
                warnings.warn(
                    f"at most about {most} units are read for an answer, and at epsilon "
                    f"{self.epsilon:g} it needs about {needed} that agree: with fewer the model "
                    f"answers without them, and may be wrong; {remedy}, or raise epsilon",
                    FewUnitsWarning,
                    stacklevel=8,  # whoever calls PrivateContextLLM.stream
                )
                return

    def notes(self) -> list[str]:
        """Sentences on how many units must agree, and on the budget."""
        found = [f"asked in {len(self.steps)} steps: {' '.join(self.steps)}"] if self.steps else []
        if self.units_to_agree is not None:
            found.append(f"about {self.units_to_agree} documents must say the same")
        none, *some = self.outcomes or (None,)
        if none is not None and any(one.rho != none.rho for one in some):
            said = [f"{one.rho:.4g} where {one.units} do" for one in some]
            nothing = f"rho {none.rho:.4g} where no two documents say the same"
            found.append(f"on average it costs {nothing}, {', '.join(said)}")
        if self.calls is not None:
            found.append(f"about {self.calls} calls to the reader, one for each unit found")
        if self.budget_left is not None and self.rho:
            many = "one answer" if self.answers_left == 1 else f"{self.answers_left} answers"
            found.append(f"the budget has rho {self.budget_left:.4g} left, {many} at this price")
        return found

    def as_dict(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        names = ("epsilon", "delta", "rho", "search_rho", "support_rho", "agreement_rho")
        words = ("thresholds", "tokens_rho", "token_rho", "individual", "units_to_agree")
        left = ("budget_left", "calls", "answers_left")
        found = {name: getattr(self, name) for name in (*names, *words, *left)}
        return {**found, "outcomes": [asdict(one) for one in self.outcomes]}


def units_needed(mechanism: ExponentialMechanism) -> int:
    """About how many units must agree before tokens follow them. Public.

    Args:
        mechanism: Draws by ``surplus`` or ``vote``.
    """
    return math.ceil(_NEWS / (mechanism.strength * mechanism.utility.range))


def _remedy(search: Search) -> str:
    """The setting that lets a search find more units."""
    if search.rate < 1:
        return "raise the sampling rate"
    if search.thin_to is not None and not search.bar.noisy:
        return "raise max_calls"
    if search.nearest is not None:
        # Of half the weight, as each may displace another.
        return "leave top_k (the k of a retriever) out"
    return "raise units"
