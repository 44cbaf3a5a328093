"""A search whose coins follow from a seed, so that all contenders are given the same units."""

from __future__ import annotations

import warnings

from dpicl_rag.accounting import Adjacency
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness
from dpicl_rag.retrieval.base import Retriever, Search, WrappedRetriever, affordable


class FixedSearch(WrappedRetriever):
    """The units that a retriever finds for a question, the same ones for the same noise.

    Args:
        retriever: Searches.
        seed: Of its coins.
    """

    def __init__(self, retriever: Retriever, seed: int) -> None:
        super().__init__(retriever)
        self._seed = seed

    def rho(self, adjacency: Adjacency) -> float:
        """That of the retriever."""
        return self.retriever.rho(adjacency)

    def within(self, rho: float, adjacency: Adjacency) -> FixedSearch:
        """See `Priced.within`."""
        return FixedSearch(affordable(self.retriever, rho, adjacency), self._seed)

    def search(self, question: str) -> Search:
        """Search; whatever coins are given are left alone."""
        found = self.retriever.search(question)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            coins = Randomness.of(self._seed)
        return Search(found.units, lambda admitted, _: found.choose(admitted, coins))
