"""A threshold that lets about a wanted number of units pass, found from the top down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from dpicl_rag import _validate
from dpicl_rag.accounting import Adjacency
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.count import NoisyCount
from dpicl_rag.retrieval.private import Choice, CountingRetriever

THRESHOLDS = tuple(hundredths / 100 for hundredths in range(79, 38, -3))
"""0.79, 0.76, ..., 0.40: chosen without a corpus, for cosines of sentence embeddings."""


@dataclass(eq=False, repr=False)
class PrivateThresholdRetriever(CountingRetriever):
    """About ``units`` units, those closest to the question, by a noisy threshold.

    Counts the units between neighbouring thresholds, from the top down, with Gaussian noise on
    each count, until the counts add up to ``units`` or the lowest threshold is met. A unit is in
    one bin, so it pays for one count at most, 1 / (2 sigma^2) of zCDP; and the bins that were
    counted are those at or above the chosen threshold, so **exactly the units that reach it have
    paid**. Units further away pay nothing.

    Finer thresholds cost no more, but the noise of all counts adds up: the total at the n-th
    threshold has standard deviation ``sigma * sqrt(n)``.

    Args:
        source: Where the vectors are.
        units: Number of units to aim for. Public.
        sigma: Standard deviation of the noise on one count; if None, what a tenth of the answer's
            budget pays for, and at least 3.5.
        thresholds: Cosines to choose from, falling. Choose them without looking at the corpus. At
            the last one the search ends, however few units were found.
        thin_to: Thin what passes to about this number, each unit by its own coin, at a rate from
            the noisy counts. Not a cap: "the best n" would be a top-n. All pass if None.
        where: Chroma filter on metadata, applied first. Public.
        passages_per_unit: Most passages returned per unit, the best; all if None.

    Raises:
        ConfigurationError: A parameter is out of range.
    """

    units: int = 64
    _: KW_ONLY
    thresholds: Sequence[float] = THRESHOLDS

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.count("units", self.units)

    def __repr__(self) -> str:
        noise = "" if self.sigma is None else f", sigma={self.sigma:g}"
        return f"PrivateThresholdRetriever({self.source!r}, units={self.units}{noise})"

    def looks(self, adjacency: Adjacency) -> int:
        """One; a replaced unit leaves one bin and enters another, so two counts move."""
        return 2 if adjacency is Adjacency.REPLACE_ONE else 1

    def _choose(self, counts: Sequence[int], randomness: Randomness) -> Choice:
        total, place, noise = 0, -1, self.noise
        while place + 1 < len(counts) and total < self.units:
            place += 1
            total += counts[place] + noise.draw(randomness)
        count = NoisyCount(total, noise.sigma * math.sqrt(place + 1))
        return Choice(place, count, [int(bin_ <= place) for bin_ in range(len(counts))])
