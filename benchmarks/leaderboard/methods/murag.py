"""MuRAG: a fixed relevance threshold, and each unit pays for the answers that read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.leaderboard.method import Asked, Method, Setting, Told
from benchmarks.leaderboard.methods.koga_sparse import SparseVotes
from dpicl_rag import ThresholdRetriever
from dpicl_rag.accounting import epsilon_to_rho, rho_to_epsilon
from dpicl_rag.retrieval.retrievers import as_retriever
from dpicl_rag.retrieval.vectors import VectorSource


@dataclass
class UnitFilter:
    """How many answers may read a unit. What was read is private.

    Attributes:
        answers: For each unit.
    """

    answers: int = 1
    _read: Counter[str] = field(default_factory=Counter, repr=False)

    def admit(self, units: Iterable[str]) -> set[str]:
        """The units that can still pay; they have paid then. It follows from each one alone."""
        able = {unit for unit in units if self._read[unit] < self.answers}
        self._read.update(able)
        return able


@dataclass(frozen=True)
class MuRAG(Method):
    """Koga's sparse votes behind a fixed threshold: a unit below it has nothing to pay.

    Attributes:
        draws: Tokens that documents are asked for at most, in one answer.
        lifetime: Of the units. Each answer costs its part of epsilon; None is one for every answer,
            as other methods of the table have it.
    """

    draws: int = 8
    lifetime: UnitFilter | None = None
    name: str = "MuRAG, individual filter"
    source: str = "Wu, Wang, Zhang, Wang 2025, arXiv 2511.07637, MuRAG over DPSparseVoteRAG"

    def charge(self, setting: Setting, epsilon: float, delta: float) -> float:
        """For a unit that all its answers read; the search is free."""
        sparse = self.votes(setting, epsilon, delta)
        answers = 1 if self.lifetime is None else self.lifetime.answers
        rest = delta - answers * sparse.draws * sparse.draw.delta
        return rho_to_epsilon(answers * sparse.rho, rest)

    def votes(self, setting: Setting, epsilon: float, delta: float) -> SparseVotes:
        """The draws of one answer; half of the units that are aimed at must differ."""
        answers = 1 if self.lifetime is None else self.lifetime.answers
        rho = epsilon_to_rho(epsilon, delta / 2) / answers
        return SparseVotes.within(rho, delta / 2 / answers, self.draws, setting.units // 2)

    def answer(self, setting: Setting, asked: Asked) -> Told:
        """See `Method.answer`."""
        documents = asked.documents
        if isinstance(documents, VectorSource):
            documents = ThresholdRetriever(documents, setting.bar)
        search = as_retriever(documents).search(asked.question)
        found = search.choose(randomness=asked.randomness).units
        able = (self.lifetime or UnitFilter()).admit(found)
        units = [own for unit, own in found.items() if unit in able]
        votes = self.votes(setting, asked.epsilon, asked.delta)
        text = votes.write(setting, asked.question, units, asked.randomness)
        return Told(text, bool(text))


METHOD = MuRAG()
