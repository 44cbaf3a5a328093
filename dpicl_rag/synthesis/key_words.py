"""Key words of many units, found by noisy counts, and the topics that units join by them.

Words and their rarity are functions of a unit alone, and of a public measure. There are two ways to
count them, both sums to which each unit adds its own words and nothing else, with discrete Gaussian
noise on every count of a public set of candidates, also on those that are zero. A count that is
moved by 1 costs ``1 / (2 sigma^2)`` of zCDP, so a unit pays for the counts that it is in, and no
unit is in more than ``K`` of the list or ``K D`` of the trie.

*List*: all words of a public list. *Trie*: words that no list has, such as made-up names, letter by
letter over a public alphabet: two letters are added to every prefix whose noisy count was high
enough. What is counted next follows from released counts alone.

*Topics and batches* are functions of the unit, of released keys and of a coin of its own. So a unit
that arrives adds one expert to each of its records, and changes no other (stability 1, 0). A batch
filled by order would shift every later unit.
"""

from __future__ import annotations

import hmac
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import ClassVar

from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.normal_forms import normal_form
from dpicl_rag.retrieval.base import NoisyCount

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
"""Letters of words; capitals and accents are taken off."""

SHORTEST = 4
_WORD = re.compile(rf"[{ALPHABET}]{{{SHORTEST},}}")
_BEGINS = ("\u0120", "\u2581", " ")  # how vocabularies write the space before a word


def words_in(text: str) -> set[str]:
    """The words of a text, in letters of `ALPHABET`; numbers are none."""
    plain = normal_form("NFKD", text).casefold()
    bare = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return {word for word in _WORD.findall(bare) if not word.isdigit()}


@dataclass(frozen=True, slots=True, repr=False)
class UnitWords:
    """The rarest words of one unit: a function of the unit alone, and private.

    Attributes:
        listed: Those of the public list, the rarest first.
        unlisted: Those that are not in it, the rarest first.
    """

    listed: tuple[str, ...] = field(repr=False)
    unlisted: tuple[str, ...] = field(repr=False)


class PublicWords:
    """Common words by a model's tokenizer, and how common they are.

    Args:
        tokenizer: Of any model. Its vocabulary was fixed before the private documents were read.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        vocabulary = getattr(tokenizer, "vocabulary", {})
        whole = (token[1:].casefold() for token in vocabulary if token.startswith(_BEGINS))
        self.listed = tuple(sorted({word for word in whole if words_in(word) == {word}}))
        self._listed = frozenset(self.listed)
        self.rarity = lru_cache(maxsize=1 << 18)(self._rarity)

    def _rarity(self, word: str) -> float:
        # Tokens stand in the order of their frequency, and a rare word takes several. With Zipf's
        # law this is the negative logarithm of a word's frequency.
        return sum(math.log1p(token) for token in self._tokenizer.encode(f" {word}"))

    def rarest(self, passages: Iterable[str], most: int) -> UnitWords:
        """The rarest words of a unit.

        Args:
            passages: All its texts.
            most: How many in the list, and how many outside it.
        """
        found = set[str]().union(*map(words_in, passages))
        ordered = self.by_rarity(found)
        listed = [word for word in ordered if word in self._listed]
        unlisted = [word for word in ordered if word not in self._listed]
        return UnitWords(tuple(listed[:most]), tuple(unlisted[:most]))

    def by_rarity(self, words: Iterable[str]) -> Sequence[str]:
        """Words in a public order, the rarest first."""
        return sorted(words, key=lambda word: (-self.rarity(word), word))


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


@dataclass(frozen=True, slots=True)
class Topic:
    """A released key and the records that are written about it. All of it is public.

    Attributes:
        key: What the records are about.
        batches: Among how many batches its units are spread.
        records: How many of the batches become records.
    """

    key: ReleasedWord
    batches: int
    records: int

    @property
    def count(self) -> NoisyCount:
        """Number of units in a batch, as far as it was released."""
        return NoisyCount(self.key.count, self.key.sigma).thinned(1 / self.batches)


def topics_for(keys: Sequence[ReleasedWord], batch: int, most: int) -> list[Topic]:
    """The topic of each key: from its noisy count, and no other.

    Args:
        keys: As they were released.
        batch: Units that a record aims to read.
        most: Records of one topic at most.
    """
    found = []
    for key in keys:
        batches = max(1, key.count // batch)
        found.append(Topic(key, batches, min(batches, most)))
    return found


def joined(words: Collection[str], topics: Sequence[Topic], most: int) -> list[int]:
    """Topics that a unit joins: those of its own words.

    Args:
        words: Of the unit, as they would be released.
        topics: In a public order, the rarest key first.
        most: How many it joins at most: no unit is in more records than that.
    """
    own = [place for place, topic in enumerate(topics) if topic.key.word in words]
    return own[:most]


def batch_of(run_key: bytes, unit: str, word: str, batches: int) -> int:
    """The batch of a unit in a topic: its own coin, which comes out the same again.

    The guarantee does not rest on the key's being secret: whatever the coin, it is the unit's own.

    Args:
        run_key: Secret of the run.
        unit: The unit.
        word: Key of the topic.
        batches: How many there are.
    """
    name = word.encode()
    return coin_of(run_key, unit, len(name).to_bytes(8, "big") + name) % batches


def coin_of(run_key: bytes, unit: str, purpose: bytes) -> int:
    """A unit's own coin of 256 bits, which comes out the same again in the same run.

    Args:
        run_key: Secret of the run.
        unit: The unit.
        purpose: What the coin decides; coins of other purposes have nothing to do with it.
    """
    message = purpose + unit.encode("utf-8", "surrogatepass")
    return int.from_bytes(hmac.digest(run_key, message, "sha256"), "big")
