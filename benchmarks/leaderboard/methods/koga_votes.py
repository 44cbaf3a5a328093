"""DPVoteRAG: every token is voted on."""

from __future__ import annotations

from benchmarks.leaderboard.method import (
    Setting,
    Told,
    budget_beside_search,
    read_units,
    search_for,
    written,
)
from benchmarks.leaderboard.token_votes import LimitedDomain, votes
from benchmarks.rival_budget import token_votes
from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.retrievers import Documents


class VoteRAG:
    """Each document votes for a token; half of delta is for thresholds."""

    name = "DPVoteRAG"
    source = "Koga, Wu, Chaudhuri 2024, arXiv 2412.04697, Algorithm 1"

    def charge(self, setting: Setting, epsilon: float, delta: float) -> float:
        """See `Method.charge`: rho of all draws, and delta of all thresholds."""
        draw, tokens = self.draw(setting, epsilon, delta), setting.max_tokens
        rho = budget_beside_search(epsilon, delta / 2).search_rho + tokens * draw.rho
        return rho_to_epsilon(rho, delta - tokens * draw.delta)

    def needed(self, setting: Setting, epsilon: float) -> int | None:
        """See `Method.needed`."""
        return token_votes(epsilon, setting.max_tokens)

    def draw(self, setting: Setting, epsilon: float, delta: float) -> LimitedDomain:
        """The draw of one token."""
        tokens = setting.max_tokens
        left = budget_beside_search(epsilon, delta / 2).rho
        return LimitedDomain.within(left / tokens, delta / 2 / tokens)

    def answer(
        self,
        setting: Setting,
        question: str,
        documents: Documents,
        epsilon: float,
        delta: float,
        randomness: Randomness,
    ) -> Told:
        """See `Method.answer`."""
        draw = self.draw(setting, epsilon, delta)
        search = search_for(setting, documents, budget_beside_search(epsilon, delta / 2))
        found = search.search(question).choose(randomness=randomness)
        prompt, rows, _ = read_units(setting, question, found.units.values())
        text = written(setting, prompt, rows, lambda step: draw.draw(votes(step), randomness))
        return Told(text, bool(text))


METHOD = VoteRAG()
