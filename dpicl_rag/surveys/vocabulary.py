"""Vocabulary of a survey: public words, the votes of units for them, and the themes they make.

The list was fixed before any document was read, so what is in it tells nothing. A unit votes for
the words that are nearest to its passages. Its votes are a function of its own vectors and of
public ones, bit for bit (`dpicl_rag.retrieval.unit_vectors`), so a unit that comes moves ``most``
counts by one each, and no others. Themes are public work on released counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.unit_vectors import LOWEST, Blocks, rounded
from dpicl_rag.retrieval.vectors import embedded, on_grid

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


def nearest_themes(
    texts: Sequence[str], themes: Sequence[Theme], embedder: Embedder
) -> list[int | None]:
    """The theme that each text is nearest to, the first of equals. Private.

    A text is of one theme at most, by its own vector: of none where it is empty, or further from
    all than words of one theme are.

    Args:
        texts: One of each unit. Private.
        themes: Public.
        embedder: Of their vectors.
    """
    if not themes:
        return [None] * len(texts)
    told = [at for at, text in enumerate(texts) if text.strip()]
    middles = on_grid(np.stack([theme.vector for theme in themes])).astype(np.float64)
    found: list[int | None] = [None] * len(texts)
    vectors = embedded([texts[at] for at in told], embedder).astype(np.float64)
    for at, vector in zip(told, vectors, strict=True):
        scores = middles @ vector  # exact in any order of summation, see `retrieval/vectors.py`
        best = int(scores.argmax())
        found[at] = best if scores[best] > 1 - _FAR else None
    return found


_WORDS = 1024  # scored at a time


def nearest_words(
    blocks: Blocks, words: npt.NDArray[np.float32], most: int, least: float = LOWEST
) -> list[int]:
    """Counts of units that vote for each word, and last of those for none. Private.

    Args:
        blocks: Who votes.
        words: Vectors of the words, rounded ``[words, d]``.
        most: Words that a unit votes for.
        least: Cosine from which a word is near at all.

    Raises:
        StoppedError: It was ended between two blocks.
    """
    counts = np.zeros(len(words) + 1, dtype=np.int64)
    for vectors, firsts in blocks():
        if not len(words) or vectors.shape[1] != words.shape[1]:
            # Of another embedder: an error would tell that it is there.
            counts[-1] += len(firsts)
            continue
        scores = np.empty((len(firsts), len(words)), dtype=np.float32)
        for begun in range(0, len(words), _WORDS):
            part = vectors @ words[begun : begun + _WORDS].T
            if len(firsts) < len(vectors):
                part = np.maximum.reduceat(part, firsts, axis=0)
            scores[:, begun : begun + _WORDS] = part
        rows = np.arange(len(scores))
        for vote in range(most):
            best = scores.argmax(axis=1)
            near = scores[rows, best] >= max(least, LOWEST)  # none is voted for twice
            counts[:-1] += np.bincount(best[near], minlength=len(words))
            if not vote:
                counts[-1] += len(near) - int(near.sum())
            scores[rows, best] = -np.inf
        give_way()
    return [int(count) for count in counts]
