"""Budgets of draws, and the shares into which an answer, an example or a corpus splits one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dpicl_rag import _validate
from dpicl_rag.accounting._search import largest_affordable
from dpicl_rag.accounting.conversion import epsilon_to_rho, gaussian_mu, rho_to_epsilon
from dpicl_rag.accounting.stability import DIRECT, Adjacency, Stability
from dpicl_rag.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that some draws cost in sum, and the units that they protect. All of it is public.

    Attributes:
        epsilon: All draws, and the search before them, are (epsilon, delta)-DP. Above 0.
        delta: Strictly between 0 and 1. Purely private draws use it for many queries only.
        adjacency: What makes two corpora neighbours.
        stability: From the corpus to the experts.
        queries: How many draws share the budget.
        search_rho: Rho of zCDP that a search costs any unit at most, beside the draw. A budget
            with one is for a single query.

    Raises:
        ConfigurationError: An attribute is outside its range.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
    stability: Stability = DIRECT
    queries: int = 1
    search_rho: float = 0.0

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        _validate.probability("delta", self.delta)
        _validate.count("queries", self.queries)
        _validate.non_negative("search_rho", self.search_rho)
        if not isinstance(self.adjacency, Adjacency):
            raise ConfigurationError("adjacency must be an Adjacency")
        if self.search_rho > 0 and self.queries > 1:
            raise ConfigurationError("a search is priced for one query; use one budget for each")

    def then(self, stage: Stability) -> Budget:
        """The same budget, one stage nearer to the experts."""
        return replace(self, stability=self.stability.then(stage))

    @property
    def factor(self) -> int:
        """Multiplier on ``lambda * R``, see ``Stability.factor``."""
        return self.stability.factor(self.adjacency)

    @property
    def rho(self) -> float:
        """Rho of zCDP that the search leaves for the draws.

        Raises:
            ConfigurationError: It leaves nothing.
        """
        whole = epsilon_to_rho(self.epsilon, self.delta)
        if self.search_rho >= whole:
            raise ConfigurationError(
                "the search costs more than the whole budget of an answer; give it more noise "
                "(sigma) or raise epsilon"
            )
        return whole - self.search_rho

    @property
    def search_delta(self) -> float:
        """Delta of a purely private draw and the search before it; 0 without a search."""
        return self.delta if self.search_rho > 0 else 0.0

    def pure_epsilon(self, rho_of: Callable[[float], float]) -> float:
        """Largest epsilon of one purely private draw beside the search.

        Without a search, and for many queries, all of ``epsilon``.

        Args:
            rho_of: Rho of zCDP of an epsilon-DP draw of its kind: ``epsilon^2 / 8`` for a
                bounded-range one, ``epsilon tanh(epsilon / 2)`` for any.

        Raises:
            ConfigurationError: The search leaves nothing.
        """
        if self.search_rho == 0:
            return self.epsilon
        # Two sound ways to add the search up; for one draw neither is always the better.
        by_rho = largest_affordable(rho_of, self.rho)
        by_epsilon = self.epsilon - rho_to_epsilon(self.search_rho, self.delta)
        return min(self.epsilon, max(by_rho, by_epsilon))

    def beside_search(self) -> tuple[float, float]:
        """Epsilon and delta of one release of any kind after the search; epsilon may be 0 or less.

        Both add up, whatever the search found (Dwork, Roth 2014, "The Algorithmic Foundations of
        Differential Privacy", Theorem B.1).
        """
        if self.search_rho == 0:
            return self.epsilon, self.delta
        delta = SHARES.selection_delta * self.delta
        # A billionth is kept back for the rounding of these sums.
        left = (self.delta - delta) * (1 - 1e-9)
        return self.epsilon * (1 - 1e-9) - rho_to_epsilon(self.search_rho, left), delta

    def gaussian_mu(self) -> float:
        """Largest sensitivity over noise of one Gaussian draw beside the search.

        Raises:
            ConfigurationError: The search leaves nothing.
        """
        if self.search_rho == 0:
            return gaussian_mu(self.epsilon, self.delta)
        # The same two ways; as sums of epsilon, the search and the draw take half of delta each.
        by_rho, half = math.sqrt(2 * self.rho), self.delta / 2
        left = self.epsilon - rho_to_epsilon(self.search_rho, half)
        return by_rho if left <= 0 else max(by_rho, gaussian_mu(left, half))


@dataclass(frozen=True, slots=True)
class Booking:
    """Terms of a budget for the answers that it pays for. Public.

    Attributes:
        gaussian: It pays for Gaussian noise alone, which adds up exactly.
        threshold_delta: What the thresholds of one answer may take from its pool of delta; None is
            the usual part.
    """

    gaussian: bool = False
    threshold_delta: float | None = None


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of a zCDP rho, and how many draws share the rest.

    All of them are public and follow from nothing that a document says. `PrivateContextLLM.plan`
    prints what they come to. docs/privacy.md and benchmarks/README.md have the measurements.

    Attributes:
        count: Of an answer, for each count of units whose noise is not set.
        count_rho: The most that such a count takes: noise of scale 3.5. Noise of many counts adds
            up beside 64 units.
        search_before_counts: Of the usual price of a search, where an answer is proposed or whole
            answers alone are counted: most of the units found say it, however many they are, so
            their number may be known roughly. With more noise too few are found.
        search_beside_agreement: The same where words are drawn if the whole answers do not agree.
        pivotal_tokens: Full-range tokens of an answer that one unit can pay for under individual
            accounting. Few tokens are news to the public model, so this is far below
            ``max_tokens``; units that would need more are scaled down, not dropped.
        pivotal_tokens_counted: The same where the number of units is known: few draws take the
            full range then.
        cheap_tokens: Draws that share a budget where experts gain no more than they need.
        pivotal_tokens_of_examples: As ``pivotal_tokens``, of one synthetic example.
        threshold_delta: Of the delta of an answer that no ledger books, for the thresholds of whole
            answers. Epsilon is converted to rho at the rest of it.
        threshold_pool: The same of the delta of a budget, for all answers that it pays for.
        answers: An answer takes one part in so many of what is left of that pool, where its owner
            does not say.
        selection_delta: Of an answer's delta, for a selection that nothing adds up; the rest is for
            the search before it. Half or nine tenths need one unit more in some fifty.
        support_beside_agreement: The same of the count of support.
        agreement: Of an answer's rho, for counts of whole answers.
        first_threshold: Of the units asked for, about how many must agree at the first count of
            whole answers. Each later count has half of its noise.
        top_counts: Of the rho of whole answers under a ledger, for the number of units that agree
            most: a plan chooses one.
        first_threshold_of_keys: Of a top count, about how many must agree at the first count of
            keys behind it.
        first_threshold_of_top: Of a top count, about how many must agree at the first count of
            whole answers.
        failures: Questions that nobody answers, for each one that is answered: what they cost is
            weighed so.
        early_step: Of what is left of ``agreement``, the most that a count takes but for the last,
            which takes the rest.
        early_step_of_keys: The same of counts of keys behind a top count.
        early_threshold: The same of the delta of thresholds.
        first_of_values: Of the rho of whole answers, for the first count of public values: noise
            six times as large as with all of it.
        counted_units: Of a count, for the number of units that are asked. What is misread grows
            with that number, by a few in a hundred of it, so its noise may be seven times as large.
        survey_words: Of a survey, for the counts of words; the rest is for the shares of themes.
        summary_words: Of a summary, for the counts of words that units say they are about.
        summary_themes: The same for the shares of themes; the rest is for words that units of the
            largest themes agree on.
        keys: Of a synthetic corpus, for the counts that find its keys.
        listed_keys: Of that, for words of the public list, where both kinds are counted; the trie
            of other words has more levels to pay.
    """

    count: float = 0.1
    count_rho: float = 0.04
    search_before_counts: float = 0.25
    search_beside_agreement: float = 0.5
    pivotal_tokens: int = 6
    pivotal_tokens_counted: int = 4
    cheap_tokens: int = 10
    pivotal_tokens_of_examples: int = 12
    threshold_delta: float = 0.5
    threshold_pool: float = 0.25
    answers: int = 200
    selection_delta: float = 0.75
    support_beside_agreement: float = 0.7
    agreement: float = 0.85
    first_threshold: float = 0.5
    top_counts: tuple[float, ...] = (0.05, 0.075, 0.1, 0.125, 0.15, 0.2)
    first_threshold_of_keys: float = 0.8
    failures: float = 2.0
    first_threshold_of_top: float = 0.6
    early_step: float = 0.45
    early_step_of_keys: float = 0.3
    early_threshold: float = 0.1
    first_of_values: float = 1 / 36
    counted_units: float = 0.02
    survey_words: float = 0.6
    summary_words: float = 0.5
    summary_themes: float = 0.2
    keys: float = 0.1
    listed_keys: float = 0.3

    def beside_pool(self, delta: float) -> float:
        """The part of a delta at which budgets keep their epsilon as rho, and all they pay for."""
        return (1 - self.threshold_pool) * delta

    def counting(self, rho: float) -> float:
        """Rho of a count of units, of an answer's rho."""
        return min(self.count * rho, self.count_rho)


SHARES = Shares()
