"""Themes: released words that lie near each other. All of it is public work on released counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_FAR = 0.55
"""Cosine distance from which words are of two themes, on the average over their pairs."""

_NAMED_BY = 2


@dataclass(frozen=True, slots=True)
class Theme:
    """Words about the same thing.

    Attributes:
        words: The most frequent first.
        vector: Mean of their vectors by their counts, of length 1, float32 ``[d]``.
    """

    words: tuple[str, ...]
    vector: npt.NDArray[np.float32]

    @property
    def name(self) -> str:
        """Its two most frequent words."""
        return ", ".join(self.words[:_NAMED_BY])


def themes_of(
    words: Sequence[str], counts: Sequence[int], vectors: npt.NDArray[np.float32]
) -> list[Theme]:
    """Group released words by how near they lie, the heaviest theme first.

    Args:
        words: As they were released.
        counts: Their noisy counts, above 0.
        vectors: Their embeddings ``[words, d]``.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    if not words:
        return []
    weights = np.asarray(counts, dtype=np.float64)
    groups = np.ones(1, dtype=int)
    if len(words) > 1:
        tree = linkage(vectors.astype(np.float64), method="average", metric="cosine")
        groups = fcluster(tree, _FAR, criterion="distance")
    found = []
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        own = own[np.argsort(-weights[own], kind="stable")]
        middle = weights[own] @ vectors[own].astype(np.float64)
        middle /= max(float(np.linalg.norm(middle)), 1e-12)
        theme = Theme(tuple(words[int(at)] for at in own), middle.astype(np.float32))
        found.append((-float(weights[own].sum()), theme))
    return [theme for _, theme in sorted(found, key=lambda one: one[0])]
