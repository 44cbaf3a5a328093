"""Key words: words of many units, found by noisy counts.

Two ways, both sums to which each unit adds its own words and nothing else, with discrete Gaussian
noise on every count of a public set of candidates, also on those that are zero. A count that is
moved by 1 costs ``1 / (2 sigma^2)`` of zCDP, so a unit pays for the counts that it is in, and no
unit is in more than ``K`` of the list or ``K D`` of the trie.

*List*: all words of a public list. *Trie*: words that no list has, such as made-up names, letter by
letter over a public alphabet: two letters are added to every prefix whose noisy count was high
enough. What is counted next follows from released counts alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.synthesis.unit_words import ALPHABET

BAR = 4.0
"""Sigmas that a noisy count must pass: noise alone does 3 times in 100,000 counts."""

LEVELS = 7
"""Of the trie."""

LONGEST = 2 * LEVELS
"""Letters by which the words of the trie are distinguished."""

_END = "$"  # in the trie: the word ends here

Own = Sequence[Collection[str]]
"""The candidates that each unit is counted in. Private."""

Count = Callable[[str, Iterable[str], Own, DiscreteGaussian], list[tuple[str, int]]]
"""Releases one round of counts: its name, the candidates, whose they are, the noise on each. Gives
those that passed, as `noisy_counts` does."""

Pay = Callable[[Sequence[int]], None]
"""Charges each unit for so many counts, durably."""


@dataclass(frozen=True, slots=True)
class ReleasedWord:
    """A released word.

    Attributes:
        word: The word; of a long one its beginning, see `Trie.longest`.
        count: How many units have it among their rarest words, with noise.
        sigma: Standard deviation of the noise.
    """

    word: str
    count: int
    sigma: float


def noise_for(rho: float, counts: int) -> DiscreteGaussian:
    """The least noise with which so many counts of one unit cost at most ``rho``."""
    # Rounded up, so that the price is not above rho.
    return DiscreteGaussian(math.sqrt(counts / (2 * rho)) * (1 + 1e-12))


@dataclass(frozen=True, slots=True)
class WordList:
    """Counts of public words.

    Attributes:
        words: The list.
        noise: On each count.
    """

    words: Sequence[str]
    noise: DiscreteGaussian

    round: ClassVar[str] = "list"
    """Name of its one round."""

    def release(self, units: Sequence[Iterable[str]], count: Count) -> list[ReleasedWord]:
        """Words that enough units have.

        Args:
            units: The words of each unit. Private.
            count: Releases counts.
        """
        listed = frozenset(self.words)
        own = [listed.intersection(words) for words in units]
        passed = count(self.round, self.words, own, self.noise)
        return [ReleasedWord(word, number, self.noise.sigma) for word, number in passed]


@dataclass(frozen=True, slots=True)
class Trie:
    """Counts of beginnings of words, two letters longer at every level.

    Attributes:
        noise: On each count.
        levels: D.
        kept: Most beginnings that are followed from one level to the next.
        alphabet: Public letters.
    """

    noise: DiscreteGaussian
    levels: int = LEVELS
    kept: int = 200
    alphabet: str = ALPHABET

    @property
    def rounds(self) -> list[str]:
        """Names of its rounds, one for each level."""
        return [f"trie {level}" for level in range(1, self.levels + 1)]

    @property
    def longest(self) -> int:
        """Letters of a word that are looked at: longer ones are known by their beginning."""
        return 2 * self.levels

    def known_by(self, word: str) -> str:
        """The form in which a word would come out."""
        return word[: self.longest]

    def release(self, units: Sequence[Iterable[str]], count: Count) -> list[ReleasedWord]:
        """Words that enough units have; arguments as in `WordList.release`."""
        letters = frozenset(self.alphabet)
        spelled = [
            {self._spelled(word) for word in words if letters.issuperset(word)} for words in units
        ]
        found: list[ReleasedWord] = []
        beginnings = [""]
        for level, name in enumerate(self.rounds, start=1):
            candidates = map("".join, product(beginnings, self._blocks()))
            followed = frozenset(beginnings)
            own = [self.nodes(words, followed, level) for words in spelled]
            passed = count(name, candidates, own, self.noise)
            found += [
                ReleasedWord(node.removesuffix(_END), number, self.noise.sigma)
                for node, number in passed
                if self._is_whole(node)
            ]
            going_on = [(number, node) for node, number in passed if not self._is_whole(node)]
            beginnings = sorted(node for _, node in sorted(going_on, reverse=True)[: self.kept])
        return found

    def nodes(self, spelled: Iterable[str], beginnings: frozenset[str], level: int) -> set[str]:
        """The counts of a level that a unit is in: one for each of its words at most.

        Args:
            spelled: Its words, each with its end.
            beginnings: What was followed to this level.
            level: From 1.
        """
        before, after = 2 * (level - 1), 2 * level
        return {
            word[:after]
            for word in spelled
            # A word that ended before has no more letters.
            if word[:before] in beginnings and len(word) > before
        }

    def _spelled(self, word: str) -> str:
        return word[: self.longest] if len(word) >= self.longest else word + _END

    def _is_whole(self, node: str) -> bool:
        return node.endswith(_END) or len(node) == self.longest

    def _blocks(self) -> list[str]:
        return [_END, *map("".join, product(self.alphabet, self.alphabet + _END))]


def noisy_counts(
    candidates: Iterable[str],
    own: Own,
    noise: DiscreteGaussian,
    pay: Pay,
    randomness: Randomness,
) -> list[tuple[str, int]]:
    """Public candidates whose noisy count passes the bar, with that count.

    Args:
        candidates: What is counted. Noise is drawn for each, whether or not any unit has it.
        own: The candidates that each unit is counted in. Private.
        noise: On each count.
        pay: Charges units.
        randomness: Of the noise.
    """
    # Drawn first, as it takes longest: a kill seldom falls between the charge and the release.
    extra = [(candidate, noise.draw(randomness)) for candidate in candidates]
    pay([len(counted) for counted in own])
    counts = Counter(candidate for counted in own for candidate in counted)
    noisy = [(candidate, counts[candidate] + drawn) for candidate, drawn in extra]
    return [(candidate, number) for candidate, number in noisy if number > BAR * noise.sigma]
