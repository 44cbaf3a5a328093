"""Thinning by Poisson subsampling, where more units pass than time allows."""

from __future__ import annotations

import random

from dpicl_rag.accounting.stability import Stability
from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.base import Retriever


class PoissonSampledRetriever:
    """Keeps each unit that another retriever returns by a coin of its own, at a public rate.

    The coins are tossed anew at each call. Keeping "the first n" in place of this would be a
    top-n: the arrival of one unit would change another (privacy.md, section 2).

    Args:
        retriever: Where the units come from.
        rate: Probability of keeping a unit, above 0 and at most 1. An accountant may use it for
            amplification.
        seed: For tests. With a seed the coins are predictable and nothing is amplified.

    Raises:
        ConfigurationError: The rate is out of range.
    """

    def __init__(self, retriever: Retriever, rate: float, *, seed: int | None = None) -> None:
        if not 0 < rate <= 1:
            raise ConfigurationError("rate must be above 0 and at most 1")
        self.retriever = retriever
        self.rate = rate
        self._coins = random.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311

    def __repr__(self) -> str:
        return f"PoissonSampledRetriever({self.retriever!r}, rate={self.rate})"

    @property
    def stability(self) -> Stability:
        """That of the retriever: a unit's coin moves no other unit."""
        return self.retriever.stability

    def retrieve(self, question: str) -> list[Document]:
        """Return passages; see `Retriever.retrieve`."""
        units = group_by_unit(self.retriever.retrieve(question))
        return [
            document
            for passages in units.values()
            if self._coins.random() < self.rate
            for document in passages
        ]
