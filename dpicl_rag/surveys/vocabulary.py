"""Public words that units vote for: a list in the package, or one's own.

The list was fixed before any document was read, so what is in it tells nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.unit_vectors import rounded
from dpicl_rag.retrieval.vectors import on_grid

_ASKED = 0.45
"""Cosine with the question from which a word says nothing beyond it."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Public words, and where they lie.

    Attributes:
        words: Each once.
        vectors: Their embeddings, rounded as those of units are, float32 ``[words, d]``.
    """

    words: tuple[str, ...]
    vectors: npt.NDArray[np.float32]

    @staticmethod
    def embedded(words: Sequence[str], embedder: Embedder) -> Vocabulary:
        """Words with their embeddings, which a process computes once for each embedder.

        Args:
            words: At least two, or phrases.
            embedder: That of the documents.

        Raises:
            ConfigurationError: There are fewer, or one stands there twice.
        """
        kept = tuple(word.strip() for word in words)
        if len(kept) < 2 or not all(kept):
            raise ConfigurationError("a vocabulary needs two words or more, none of them empty")
        if len(set(kept)) < len(kept):
            raise ConfigurationError("a word stands in the vocabulary twice")
        return Vocabulary(kept, _vectors(kept, embedder))

    def beside(self, question: npt.NDArray[np.float32]) -> Vocabulary:
        """The words that a question is not near to: those that say something beyond it.

        Args:
            question: Its embedding, rounded ``[d]``.
        """
        kept = np.flatnonzero(self.vectors @ question < _ASKED)
        return Vocabulary(tuple(self.words[int(at)] for at in kept), self.vectors[kept])


def packaged_words() -> tuple[str, ...]:
    """1,000 frequent English words that lie apart; see ``words.LICENSE.txt``."""
    return tuple((files(__package__) / "words.txt").read_text("utf-8").split())


def words_of_file(path: str | Path) -> tuple[str, ...]:
    """The words or phrases of a file, one on each line.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(
            f"the vocabulary {path} cannot be read; give a text file with a word on each line"
        ) from None
    return tuple(line.strip() for line in lines if line.strip())


_MOST_KNOWN = 8  # lists of words or labels whose embeddings a process keeps
_known: dict[tuple[str, tuple[str, ...]], npt.NDArray[np.float32]] = {}


def _vectors(words: tuple[str, ...], embedder: Embedder) -> npt.NDArray[np.float32]:
    key = embedder.fingerprint, words
    found = _known.get(key)
    if found is None:
        found = rounded(on_grid(embedder.embed(words)))
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = found
    return found
