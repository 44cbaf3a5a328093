"""DPSparseVoteRAG: only tokens on which documents and the public model differ are voted on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

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
from benchmarks.leaderboard.token_votes import AboveThreshold, LimitedDomain, votes
from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.accounting.pure_dp import zcdp
from dpicl_rag.documents import Document
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step


@dataclass(frozen=True)
class SparseVotes:
    """Draws of an answer, each after a test that costs the same.

    Attributes:
        draws: How many there are; then the public model goes on by itself.
        test: Epsilon of a test.
        draw: Of a token.
        threshold: How many documents must differ. Public.
    """

    draws: int
    test: float
    draw: LimitedDomain
    threshold: int

    @property
    def rho(self) -> float:
        """Of the whole answer."""
        return self.draws * (zcdp(self.test) + self.draw.rho)

    @staticmethod
    def within(rho: float, delta: float, draws: int, threshold: int) -> SparseVotes:
        """What a price pays for: half is for tests."""
        each = rho / draws / 2
        draw = LimitedDomain.within(each, delta / draws)
        return SparseVotes(draws, AboveThreshold.affordable(each), draw, threshold)

    def write(
        self,
        setting: Setting,
        question: str,
        units: Iterable[Sequence[Document]],
        randomness: Randomness,
    ) -> str:
        """The text."""
        prompt, rows, _ = read_units(setting, question, units)
        left = self.draws
        test = AboveThreshold(self.test, self.threshold)

        def next_token(step: Step) -> int | None:
            nonlocal left, test
            public = int(torch.argmax(step.public))
            if left == 0:
                return public
            counts = votes(step)
            if not test.above(float(counts.sum() - counts[public]), randomness):
                return public
            left, test = left - 1, AboveThreshold(self.test, self.threshold)
            return self.draw.draw(counts, randomness)

        return written(setting, prompt, rows, next_token)


@dataclass(frozen=True)
class SparseVoteRAG(Method):
    """As `VoteRAG`, where documents and the public model differ.

    Attributes:
        draws: Tokens that documents are asked for at most.
    """

    draws: int = 8
    name: str = "DPSparseVoteRAG"
    source: str = "Koga, Wu, Chaudhuri 2024, arXiv 2412.04697"

    def charge(self, setting: Setting, epsilon: float, delta: float) -> float:
        """See `Method.charge`."""
        sparse = self.votes(setting, epsilon, delta)
        rho = budget_beside_search(epsilon, delta / 2).search_rho + sparse.rho
        return rho_to_epsilon(rho, delta - sparse.draws * sparse.draw.delta)

    def votes(
        self, setting: Setting, epsilon: float, delta: float, threshold: int = 0
    ) -> SparseVotes:
        """The draws of an answer."""
        left = budget_beside_search(epsilon, delta / 2).rho
        return SparseVotes.within(left, delta / 2, self.draws, threshold)

    def answer(self, setting: Setting, asked: Asked) -> Told:
        """See `Method.answer`; half of what the search has counted must differ."""
        found = find(setting, asked, budget_beside_search(asked.epsilon, asked.delta / 2))
        many = setting.units if found.count is None else found.count.value
        sparse = self.votes(setting, asked.epsilon, asked.delta, round(many / 2))
        text = sparse.write(setting, asked.question, found.units.values(), asked.randomness)
        return Told(text, bool(text))


METHOD = SparseVoteRAG()
