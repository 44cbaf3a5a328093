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
from dpicl_rag.retrieval.share import Share


class CountedRetriever(WrappedRetriever):
    """Counts, with Gaussian noise, the units that another retriever finds.

    An answer over many documents then costs less: see docs/privacy.md, "Strength by need". A unit
    pays for the count if it was counted. What was found may be thinned by the count.

    Args:
        retriever: Where the units come from. One without a price: the others count themselves.
        sigma: Standard deviation of the noise; if None, what a tenth of the answer's budget pays
            for, and at least 3.5.
        thin_to: Keep about this number of units, each by its own coin, at a rate from the noisy
            count. Not a cap: the count does not tell the true number. All are kept if None.

    Raises:
        ConfigurationError: ``sigma`` is not above 0, ``thin_to`` is below 1, or the retriever
            counts already.
    """

    def __init__(
        self, retriever: Retriever, sigma: float | None = None, *, thin_to: int | None = None
    ) -> None:
        if isinstance(retriever, Priced):
            raise ConfigurationError(
                "this retriever releases a count of its own, or samples; count before sampling"
            )
        super().__init__(retriever)
        self.sigma = None if sigma is None else _validate.positive("sigma", sigma)
        self.thin_to = None if thin_to is None else _validate.count("thin_to", thin_to)

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
        return CountedRetriever(self.retriever, sigma, thin_to=self.thin_to)

    def search(self, question: str) -> Search:
        """Search; the count is drawn when the retriever has chosen."""
        search, noise = self.retriever.search(question), self.noise

        def draw(admitted: Sequence[bool], randomness: Randomness) -> Retrieved:
            found = search.choose(admitted, randomness)
            counted = [
                counts and unit in found.units
                for unit, counts in zip(search.units, admitted, strict=True)
            ]
            count = NoisyCount(sum(counted) + noise.draw(randomness), noise.sigma)
            share = Share.of(count, self.thin_to)
            kept = {unit: own for unit, own in found.units.items() if share.keeps(randomness)}
            unit_rho = [
                own + noise.rho * counts
                for own, counts in zip(found.unit_rho, counted, strict=True)
            ]
            return Retrieved(kept, unit_rho, count.thinned(share.rate), found.rate * share.rate)

        return Search(search.units, draw)

    def _sensitivity(self, adjacency: Adjacency) -> int:
        """By how much one unit moves the count at most."""
        added, changed = self.stability.moved(adjacency)
        return max(1, added + changed)
