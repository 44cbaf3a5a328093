"""KSA: words that enough replies say are released, and one public call writes the answer from them.

Wu, Panda, Wang, Mittal 2024 (DP-ICL, arXiv 2305.01639), keyword space aggregation by
propose-test-release, which Tang, Flemings, Wang, Annavaram 2026 (DP-KSA, arXiv 2602.14374,
Algorithms 1 to 3) bring to retrieval; both after Zhu, Wang 2022, "Adaptive Private-K-Selection".
``H(k)`` is the k-th largest count of replies that say a word, and ``d_k = H(k) - H(k + 1)`` a gap.

1. *FindBestK* draws k, by its gap.
2. *TopKWithPTR* releases the k most frequent words if a noisy test finds ``d_k`` large enough.
3. The model writes the answer from the question and these words.

**Charge.** A reply that comes raises each count of its words by 1, whatever their number, so each
``H(k)`` by 0 or 1 and each gap by -1 to 1. Replies need not be cut.

- k: permute-and-flip on ``lambda d_k`` with a range of 2 is ``2 lambda``-DP (`permute_and_flip`),
  and never worse than the published exponential mechanism. Public numbers alone say which k there
  are; behind the last word counts are 0.
- The test, for a k: where ``d_k`` is 2 or more with or without a reply, the same k words are
  released. The probability of a release depends on ``d_k`` alone, and follows the best rule there
  is for a number that moves by 1 (Desfontaines, Voss, Gipson, Mandayam 2022, "Differentially
  Private Partition Selection", Theorem 1). Where the words differ, both gaps are 1 or 0, and the
  chance of a release is delta at most. Either way a test is (epsilon', delta)-DP.

Together ``(2 lambda + epsilon', delta)``, as one answer asks once. Words go out in alphabetical
order: the test says nothing of theirs.

**The published accounting**, and what is wrong with it:

- Both papers take a sensitivity of 2, which is that of a replaced reply; for one that comes or goes
  it is 1.
- DP-KSA's FindBestK with ``Gumbel(2 / epsilon)`` is 2 epsilon-DP for replaced replies. By its own
  Definition A.7 the noise is ``4 / epsilon``.
- DP-ICL's code tests the gap behind word k + 1 and then releases k words: who is the k-th was not
  tested, and one reply may decide it with certainty. It draws k from 1 up to the private number of
  words, if that is below 30.
- DP-ICL's code composes the curves of 100 answers, and counts the delta of a single test. It
  amplifies by Poisson sampling, where a fixed number of examples is drawn.
- Gaussian noise and Renyi curves suit many answers. For one, the sums above release more.

DP-ICL's other way, the joint exponential mechanism over the words of a public text, cannot say a
word that only documents have; over the words of replies it would not be private.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from dpicl_rag import _validate
from dpicl_rag.languages.content_words import FUNCTION_WORDS, digits_for_words
from dpicl_rag.mechanisms import selection
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.normal_forms import normal_form

MOST = 30
"""Keywords at most, as in DP-ICL's code."""

SHARE = 0.4
"""Part of epsilon that finds k; neither paper says it. Where all replies say the same words, this
part needs the fewest of them at epsilon 1, 2, 4 and 8."""

_WORD = re.compile(r"\w+(?:[.,'-]\w+)*")
_APOSTROPHES = str.maketrans({"\u2019": "'"})
_ASKED = (
    "Answer the question in one short sentence. The answer has these words, in some other order: "
    "{words}.\n\n"
    "Question: {question}"
)


def words_of(text: str) -> frozenset[str]:
    """The words of a text, each once, without case and without English function words."""
    plain = normal_form("NFKC", digits_for_words(text)).translate(_APOSTROPHES)
    words = (word.removesuffix("'s") for word in _WORD.findall(plain.casefold()))
    return frozenset(words) - FUNCTION_WORDS


@dataclass(frozen=True, slots=True)
class KeywordRelease:
    """The most frequent words, where the gap behind them is large enough.

    Attributes:
        most: Words at most.
        strength: lambda, of the choice of k.
        passes: Probability of a release, by the gap; the last also for all that are larger.
    """

    most: int
    strength: float
    passes: tuple[float, ...]

    @staticmethod
    def within(
        epsilon: float, delta: float, *, most: int = MOST, share: float = SHARE
    ) -> KeywordRelease:
        """What a price pays for.

        Args:
            epsilon: Above 0.
            delta: Above 0 and below 1.
            most: Words at most.
            share: Part of epsilon that finds k, between 0 and 1.

        Raises:
            ConfigurationError: A number is outside its range.
        """
        _validate.positive("epsilon", epsilon)
        _validate.probability("delta", delta)
        choice = epsilon * _validate.probability("share", share)
        return KeywordRelease(
            _validate.count("most", most), choice / 2, passing(epsilon - choice, delta)
        )

    def distribution(self, said: Sequence[Collection[str]]) -> dict[tuple[str, ...], float]:
        """Exact distribution of what is released; ``()`` where nothing is.

        Args:
            said: Words of each reply, each once. Private.
        """
        counts = Counter(word for words in said for word in words)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        heights = [counts[word] for word in ranked[: self.most + 1]]
        heights += [0] * (self.most + 1 - len(heights))
        gaps = [high - low for high, low in pairwise(heights)]
        scores = self.strength * torch.tensor(gaps, dtype=torch.float64)
        chosen = selection.flip_distribution(scores).tolist()
        found: dict[tuple[str, ...], float] = {(): 0.0}
        for k, (chance, gap) in enumerate(zip(chosen, gaps, strict=True), start=1):
            released = chance * self.passes[min(gap, len(self.passes) - 1)]
            found[()] += chance - released
            if released > 0:  # a gap that is not 0, so there are k words
                found[tuple(sorted(ranked[:k]))] = released
        return found

    def draw(self, said: Sequence[Collection[str]], randomness: Randomness) -> tuple[str, ...]:
        """Draw it; see `distribution`.

        Args:
            said: Words of each reply, each once. Private.
            randomness: Where the coin comes from.
        """
        law = self.distribution(said)
        scores = torch.log(torch.tensor(list(law.values()), dtype=torch.float64))
        return list(law)[randomness.draw(scores)]


def passing(epsilon: float, delta: float) -> tuple[float, ...]:
    """The largest probabilities of a release by a gap that moves by 1; the last is 1.

    Desfontaines, Voss, Gipson, Mandayam 2022, Theorem 1: none at 0, and from there no further
    apart than (epsilon, delta)-DP allows.

    Args:
        epsilon: Above 0.
        delta: Above 0 and below 1.
    """
    factor = math.exp(min(epsilon, 700.0))  # less than is allowed, where float64 ends
    found, rest = [0.0], 1.0
    while rest > 0:
        rising = factor * found[-1] + delta
        falling = max((rest - delta) / factor, 0.0)
        # Both are kept, for their digits: one where it is small, the other where that is.
        rest = max(1 - rising, falling)
        found.append(rising if rest > falling else 1 - rest)
    return tuple(found)


class KeywordAggregation:
    """Keyword space aggregation, over replies of which each is one unit's.

    Words of the question are left out, since the last call is given them anyway.

    Args:
        most: Keywords at most.
        share: Part of epsilon that finds their number.

    Raises:
        ConfigurationError: A number is outside its range.
    """

    def __init__(self, *, most: int = MOST, share: float = SHARE) -> None:
        self._most = _validate.count("most", most)
        self._share = _validate.probability("share", share)

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
        """What the model writes from the released words; (epsilon, delta)-DP.

        The papers ask without words where none are released; here that is no answer.

        Args:
            question: Public.
            replies: One of each unit; an empty one says no word. Private.
            ask: Asks the model, with a public prompt.
            epsilon: Above 0.
            delta: Above 0 and below 1.
            randomness: Where the coin comes from.

        Returns:
            The answer; empty where no words are released.

        Raises:
            ConfigurationError: A number is outside its range.
        """
        release = KeywordRelease.within(epsilon, delta, most=self._most, share=self._share)
        asked = words_of(question)
        keywords = release.draw([words_of(reply) - asked for reply in replies], randomness)
        if not keywords:
            return ""
        return ask(_ASKED.format(words=", ".join(keywords), question=question)).strip()
