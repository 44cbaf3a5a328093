"""The words of a unit, and how rare they are by a public measure."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.normal_forms import normal_form

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
