"""ESA: the public answer that is nearest to the noisy sum of the replies' embeddings.

Wu, Panda, Wang, Mittal 2024, "Privacy-Preserving In-Context Learning for Large Language Models"
(DP-ICL, arXiv 2305.01639), embedding space aggregation; their published notebook adds the noise to
the sum. The candidates are what the model answers without any document, so a fact that stands in
documents alone is never among them.

**Charge.** A reply adds one vector of length 1 or none, so a unit that comes or goes moves the sum
by 1, and Gaussian noise on it costs what Balle, Wang 2018 say, exactly. The nearest candidate is
post-processing: a cosine needs the direction of the sum alone, so no private number divides it.

**The published accounting** counts the same sensitivity of 1 where four examples share a prompt and
the number of prompts is fixed: an example that comes then *changes* a reply, and two opposite unit
vectors are 2 apart. It amplifies by Poisson sampling, where a fixed number of examples is drawn.
What the noise really costs with a sensitivity of 2 stands in docs/methods.md. Units that are found
by a question are no sample, so nothing is amplified here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpicl_rag import _validate
from dpicl_rag.accounting.conversion import gaussian_mu
from dpicl_rag.mechanisms import points
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.vectors import on_grid

Embed = Callable[[Sequence[str]], npt.ArrayLike]
"""Texts to vectors ``[n, d]``. A row is a function of its own text, bit for bit, and no text makes
it fail, as of an `Embedder`."""

Vector = npt.NDArray[np.float64]

CANDIDATES = 100
"""Answers without documents for each question, as published."""

_ASKED = (
    "Answer the question in one short sentence. If you do not know, guess.\n\n"
    "Question: {question}\n\n"
    "This is answer {number} of {candidates}. Let it differ from the others."
)


@dataclass(frozen=True, slots=True)
class NoisySum:
    """The sum of unit vectors, with Gaussian noise on each component.

    Attributes:
        sigma: Standard deviation of the noise.
    """

    sigma: float

    @staticmethod
    def within(epsilon: float, delta: float, dimensions: int) -> NoisySum:
        """The least noise that a price pays for.

        Args:
            epsilon: Above 0.
            delta: Above 0 and below 1.
            dimensions: Of the vectors.

        Raises:
            ConfigurationError: A number is outside its range.
        """
        return NoisySum(longest(dimensions) / gaussian_mu(epsilon, delta))

    def draw(self, vectors: npt.NDArray[np.float32], randomness: Randomness) -> Vector:
        """Draw it: float64 ``[d]``.

        Args:
            vectors: On the grid, ``[n, d]``; see `on_grid`. Private.
            randomness: Where the noise comes from.
        """
        # Multiples of 2^-24 add up exactly, and with noise on multiples of 2^-40 again.
        whole = vectors.sum(axis=0, dtype=np.float64)
        noise = points.noise(len(whole), self.sigma, randomness)
        noisy: Vector = whole + noise.numpy()
        return noisy


def longest(dimensions: int) -> float:
    """Length of a vector on the grid at most: each component was rounded by ``2^-25``."""
    return 1 + math.sqrt(dimensions) * 2**-25 + 1e-12


class EmbeddingAggregation:
    """Embedding space aggregation, over replies of which each is one unit's.

    Args:
        embed: See `Embed`.
        candidates: Public answers to choose from.

    Raises:
        ConfigurationError: ``candidates`` is not a whole number of 1 or more.
    """

    def __init__(self, embed: Embed, *, candidates: int = CANDIDATES) -> None:
        self._embed = embed
        self._candidates = _validate.count("candidates", candidates)

    def answer(
        self,
        question: str,
        replies: Sequence[str],
        ask: Callable[[str], str],
        *,
        epsilon: float,
        delta: float,
        randomness: Randomness,
    ) -> str:
        """The public answer that is nearest to what the replies say; (epsilon, delta)-DP.

        Args:
            question: Public.
            replies: One of each unit; an empty one counts as none. Private.
            ask: Asks the model, with a public prompt.
            epsilon: Above 0.
            delta: Above 0 and below 1.
            randomness: Where the noise comes from.

        Returns:
            One of the candidates; empty if the model gave none.

        Raises:
            ConfigurationError: A number is outside its range.
        """
        _validate.positive("epsilon", epsilon)
        _validate.probability("delta", delta)
        candidates = self._without_documents(question, ask)
        if not candidates:
            return ""
        rows = on_grid(self._embed(candidates))
        said = [reply for reply in replies if reply.strip()]
        private = on_grid(self._embed(said)) if said else rows[:0]
        noisy_sum = NoisySum.within(epsilon, delta, rows.shape[1])
        direction = noisy_sum.draw(private, randomness)
        return candidates[int(np.argmax(rows.astype(np.float64) @ direction))]

    def _without_documents(self, question: str, ask: Callable[[str], str]) -> list[str]:
        """What the model answers from the question alone, each answer once."""
        prompts = (
            _ASKED.format(question=question, number=number, candidates=self._candidates)
            for number in range(1, self._candidates + 1)
        )
        answers = (ask(prompt).strip() for prompt in prompts)
        return list(dict.fromkeys(answer for answer in answers if answer))
