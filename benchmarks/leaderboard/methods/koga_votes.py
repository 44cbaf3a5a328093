"""DPVoteRAG: every token is voted on."""

from __future__ import annotations

from benchmarks.leaderboard.method import (
    Asked,
    Method,
    Setting,
    Told,
    budget_beside_search,
    find,
    read_units,
    written,
)
from benchmarks.leaderboard.token_votes import LimitedDomain, votes
from benchmarks.rival_budget import token_votes
from dpicl_rag.accounting import rho_to_epsilon


class VoteRAG(Method):
    """Each document votes for a token; half of delta is for thresholds."""

    name = "DPVoteRAG"
    source = "Koga, Wu, Chaudhuri 2024, arXiv 2412.04697"

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

    def answer(self, setting: Setting, asked: Asked) -> Told:
        """See `Method.answer`."""
        draw = self.draw(setting, asked.epsilon, asked.delta)
        found = find(setting, asked, budget_beside_search(asked.epsilon, asked.delta / 2))
        prompt, rows, _ = read_units(setting, asked.question, found.units.values())
        text = written(setting, prompt, rows, lambda step: draw.draw(votes(step), asked.randomness))
        return Told(text, bool(text))


METHOD = VoteRAG()
