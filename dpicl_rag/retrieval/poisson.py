"""Thinning by Poisson subsampling, where more units pass than time allows."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag import _validate
from dpicl_rag.accounting import Adjacency
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.base import Retrieved, Retriever, Search, WrappedRetriever, affordable


class PoissonSampledRetriever(WrappedRetriever):
    """Keeps each unit that another retriever returns by a coin of its own, at a public rate.

    The coins are tossed anew at each search. Keeping "the first n" in place of this would be a
    top-n: the arrival of one unit would change another (docs/privacy.md, "How a token
    is drawn").

    Args:
        retriever: Where the units come from.
        rate: Probability of keeping a unit, above 0 and at most 1. An accountant may use it for
            amplification.

    Raises:
        ConfigurationError: The rate is out of range.
    """

    def __init__(self, retriever: Retriever, rate: float) -> None:
        super().__init__(retriever)
        self.rate = _validate.rate("rate", rate)

    def __repr__(self) -> str:
        return f"PoissonSampledRetriever({self.retriever!r}, rate={self.rate})"

    def rho(self, adjacency: Adjacency) -> float:
        """That of the retriever: units that the coins drop have been counted."""
        return self.retriever.rho(adjacency)

    def within(self, rho: float, adjacency: Adjacency) -> PoissonSampledRetriever:
        """See `Priced.within`."""
        return PoissonSampledRetriever(affordable(self.retriever, rho, adjacency), self.rate)

    def search(self, question: str) -> Search:
        """Search; the coins are tossed when the retriever has chosen."""
        search = self.retriever.search(question)

        def draw(admitted: Sequence[bool], randomness: Randomness) -> Retrieved:
            found = search.choose(admitted, randomness)
            kept = {
                unit: passages
                for unit, passages in found.units.items()
                if randomness.uniform() < self.rate
            }
            count = found.count and found.count.thinned(self.rate)
            return Retrieved(kept, found.unit_rho, count, found.rate * self.rate)

        return Search(search.units, draw)
