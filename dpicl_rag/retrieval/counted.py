"""A search whose number of units found is released with noise, so that strength can follow it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpicl_rag import _validate
from dpicl_rag.accounting import Adjacency
from dpicl_rag.accounting.shares import SHARES
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.base import (
    Priced,
    Retrieved,
    Retriever,
    Search,
    WrappedRetriever,
)
from dpicl_rag.retrieval.count import NoisyCount, noise_of


class CountedRetriever(WrappedRetriever):
    """Counts, with Gaussian noise, the units that another retriever finds.

    An answer over many documents then costs less: see docs/privacy.md, "Strength by need". A unit
    pays for the count if it was counted.

    Args:
        retriever: Where the units come from. One without a price: the others count themselves.
        sigma: Standard deviation of the noise; if None, what a tenth of the answer's budget pays
            for, and at least 3.5.

    Raises:
        ConfigurationError: ``sigma`` is not above 0, or the retriever counts already.
    """

    def __init__(self, retriever: Retriever, sigma: float | None = None) -> None:
        if isinstance(retriever, Priced):
            raise ConfigurationError(
                "this retriever releases a count of its own, or samples; count before sampling"
            )
        super().__init__(retriever)
        self.sigma = None if sigma is None else _validate.positive("sigma", sigma)

    def __repr__(self) -> str:
        return f"CountedRetriever({self.retriever!r})"

    def rho(self, adjacency: Adjacency) -> float:
        """The most that the count costs any unit. Public."""
        return self.retriever.rho(adjacency) + self._sensitivity(adjacency) ** 2 * self.noise.rho

    @property
    def noise(self) -> DiscreteGaussian:
        """On the count.

        Raises:
            ConfigurationError: ``sigma`` is not set.
        """
        return noise_of(self.sigma)

    def within(self, rho: float, adjacency: Adjacency) -> CountedRetriever:
        """See `Priced.within`."""
        if self.sigma is not None:
            return self
        sigma = self._sensitivity(adjacency) / math.sqrt(2 * SHARES.counting(rho))
        return CountedRetriever(self.retriever, sigma)

    def search(self, question: str) -> Search:
        """Search; the count is drawn when the retriever has chosen."""
        search, noise = self.retriever.search(question), self.noise

        def draw(admitted: Sequence[bool], randomness: Randomness) -> Retrieved:
            found = search.choose(admitted, randomness)
            counted = [
                counts and unit in found.units
                for unit, counts in zip(search.units, admitted, strict=True)
            ]
            value = sum(counted) + noise.draw(randomness)
            unit_rho = [
                own + noise.rho * counts
                for own, counts in zip(found.unit_rho, counted, strict=True)
            ]
            return Retrieved(found.units, unit_rho, NoisyCount(value, noise.sigma))

        return Search(search.units, draw)

    def _sensitivity(self, adjacency: Adjacency) -> int:
        """By how much one unit moves the count at most."""
        added, changed = self.stability.moved(adjacency)
        return max(1, added + changed)
