"""A threshold close to the k-th highest score, found by halving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import accumulate

from dpicl_rag import _validate
from dpicl_rag.accounting import Adjacency
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.count import NoisyCount
from dpicl_rag.retrieval.private import Choice, CountingRetriever

THRESHOLDS = tuple(hundredths / 100 for hundredths in range(93, 29, -1))
"""0.93, 0.92, ..., 0.30: 64 of them, so that 6 counts find one."""


@dataclass(eq=False, repr=False)
class PrivateTopKRetriever(CountingRetriever):
    """About ``units`` units, those closest to the question, by a noisy k-th score.

    Searches a fine list of thresholds by halving: each step counts the units at or above the
    middle one, with Gaussian noise. A unit pays 1 / (2 sigma^2) of zCDP for each count that it is
    part of, at most ``ceil(log2(len(thresholds)))`` of them. Units below the chosen threshold may
    have paid too, for counts at lower ones.

    Unlike an exact top-k, no unit displaces another: ``Stability(1, 0)``. Against
    `PrivateThresholdRetriever`, each decision has the noise of one count, so the number found is
    closer to ``units``; take that one where a rough number is enough, as its units pay once.

    Args:
        source: Where the vectors are.
        units: Number of units to aim for. Public.
        sigma: As for `PrivateThresholdRetriever`.
        thresholds: As for `PrivateThresholdRetriever`; a power of two of them wastes no count.
        thin_to: As for `PrivateThresholdRetriever`.
        where: Chroma filter on metadata, applied first. Public.
        passages_per_unit: Most passages returned per unit, the best; all if None.

    Raises:
        ConfigurationError: A parameter is out of range.
    """

    units: int
    _: KW_ONLY
    thresholds: Sequence[float] = THRESHOLDS

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.count("units", self.units)

    def __repr__(self) -> str:
        noise = "" if self.sigma is None else f", sigma={self.sigma:g}"
        return f"PrivateTopKRetriever({self.source!r}, units={self.units}{noise})"

    def looks(self, adjacency: Adjacency) -> int:
        """One for each halving. A replaced unit, too, moves each count by 1 at most."""
        return (len(self.thresholds) - 1).bit_length()

    def _choose(self, counts: Sequence[int], randomness: Randomness) -> Choice:
        reaching = list(accumulate(counts))
        looks = [0] * len(counts)
        low, high, noise = 0, len(counts) - 1, self.noise
        count: NoisyCount | None = None  # of the lowest threshold nobody asked
        while low < high:
            middle = (low + high) // 2
            noisy = reaching[middle] + noise.draw(randomness)
            for bin_ in range(middle + 1):
                looks[bin_] += 1
            if noisy >= self.units:
                high, count = middle, NoisyCount(noisy, noise.sigma)
            else:
                low = middle + 1
        return Choice(high, count, looks)
