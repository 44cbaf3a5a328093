"""A search whose coins follow from a seed, so that all contenders are given the same units."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields

from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness
from dpicl_rag.retrieval import Candidates, Search


@dataclass(frozen=True, eq=False)
class FixedSearch(Search):
    """The units that a search finds for a question, the same ones for the same noise.

    Attributes:
        seed: Of its coins.
    """

    seed: int = 0

    @staticmethod
    def of(search: Search, seed: int) -> FixedSearch:
        """The same search with coins of a seed."""
        own = {field.name: getattr(search, field.name) for field in fields(Search)}
        return FixedSearch(**own, seed=seed)

    def search(self, question: str) -> Candidates:
        """Search; whatever coins are given are left alone."""
        found = super().search(question)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            coins = Randomness.of(self.seed)
        return Candidates(found.units, lambda admitted, _: found.choose(admitted, coins))
