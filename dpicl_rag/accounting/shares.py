"""The shares of a budget: how an answer, an example or a corpus splits what it may cost.

All of them are public and follow from nothing that a document says. `PrivateContextLLM.plan` prints
what they come to. docs/privacy.md and benchmarks/README.md have the measurements behind them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of a zCDP rho, and how many draws share the rest.

    Attributes:
        count: Of an answer, for each count of units whose noise is not set.
        count_rho: The most that such a count takes: noise of scale 3.5. Noise of many counts adds
            up beside 64 units.
        search_of_proposal: Of the usual price of a search, where an answer is proposed: it is
            confirmed by most of the units found, however many they are, so their number may be
            known roughly. More noise would make the confirmation cost more.
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
        threshold_of_pool: Of an answer's delta, what its thresholds take from that pool.
        search_beside_agreement: Of the usual price of a search, where whole answers are counted: it
            is that of a proposal, too.
        support_beside_agreement: The same of the count of support.
        agreement: Of an answer's rho, for counts of whole answers.
        first_threshold: Of the units asked for, about how many must agree at the first count of
            whole answers. Each later count has half of its noise.
        top_count: Of the rho of whole answers under a ledger, for the number of units that agree
            most.
        top_count_rho: The most that such a count takes: noise of scale 6.
        first_threshold_of_top: Of a top count, about how many must agree at the first count of
            whole answers.
        early_step: Of what is left of ``agreement``, the most that a count takes but for the last,
            which takes the rest.
        early_threshold: The same of the delta of thresholds.
        survey_words: Of a survey, for the counts of words; the rest is for the shares of themes.
        keys: Of a synthetic corpus, for the counts that find its keys.
        listed_keys: Of that, for words of the public list, where both kinds are counted; the trie
            of other words has more levels to pay.
    """

    count: float = 0.1
    count_rho: float = 0.04
    search_of_proposal: float = 0.25
    pivotal_tokens: int = 6
    pivotal_tokens_counted: int = 4
    cheap_tokens: int = 10
    pivotal_tokens_of_examples: int = 12
    threshold_delta: float = 0.5
    threshold_pool: float = 0.25
    threshold_of_pool: float = 1e-4
    search_beside_agreement: float = 0.5
    support_beside_agreement: float = 0.7
    agreement: float = 0.85
    first_threshold: float = 0.5
    top_count: float = 0.15
    top_count_rho: float = 0.014
    first_threshold_of_top: float = 0.6
    early_step: float = 0.45
    early_threshold: float = 0.1
    survey_words: float = 0.6
    keys: float = 0.1
    listed_keys: float = 0.3

    def beside_pool(self, delta: float) -> float:
        """The part of a delta at which budgets keep their epsilon as rho, and all they pay for."""
        return (1 - self.threshold_pool) * delta

    def counting(self, rho: float) -> float:
        """Rho of a count of units, of an answer's rho."""
        return min(self.count * rho, self.count_rho)


SHARES = Shares()
