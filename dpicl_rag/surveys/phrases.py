"""Phrases in the place of stored vectors: what a reader says that each unit says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.notes import phrases
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.base import Retriever
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.retrievers import Documents, ThresholdRetriever
from dpicl_rag.retrieval.search import Search
from dpicl_rag.retrieval.unit_vectors import UnitVectors
from dpicl_rag.retrieval.vectors import VectorSource, on_grid
from dpicl_rag.surveys.tally_plan import tally_search

_EMBEDDED = 256  # phrases between two turns of others
_OF_WHOLE_UNITS = "What is the document about?"


@dataclass(frozen=True, slots=True, repr=False)
class PhraseReading:
    """How units are read for a survey.

    Attributes:
        reader: Says phrases of one unit at a time.
        search: Finds the units, for a price.
        on_progress: Called with the part that is read.
    """

    reader: Reader
    search: Search
    on_progress: Progress | None = None

    @staticmethod
    def of(
        reader: Reader,
        documents: Documents,
        config: PrivacyConfig,
        *,
        threshold: float | None,
        sample: float,
        on_progress: Progress | None = None,
    ) -> PhraseReading:
        """Of all units of what a caller gave, or of those near to the question.

        Args:
            reader: See the attribute.
            documents: A corpus, a store that hands over its vectors, or a list.
            config: Public settings.
            threshold: Least cosine with the question.
            sample: Public probability with which a unit is read, by a secret coin of its own.
            on_progress: See the attribute.

        Raises:
            ConfigurationError: ``documents`` is a search, or has no vectors for a threshold.
            MissingDocumentsError: ``documents`` is None.
        """
        if isinstance(documents, Retriever):
            raise ConfigurationError(
                "all units are surveyed; give a corpus, a Chroma collection, or a list of documents"
            )
        if threshold is not None and documents is not None:
            if not isinstance(documents, VectorSource):
                raise ConfigurationError("a threshold needs the vectors of a corpus; leave it out")
            documents = ThresholdRetriever(documents, threshold)
        return PhraseReading(
            reader, tally_search(documents, config, sample, read=True), on_progress
        )

    def vectors(
        self, question: str | None, most: int, embedder: Embedder, randomness: Randomness
    ) -> tuple[UnitVectors, float]:
        """The vectors of the phrases of each unit, and the public rate of the coins that kept it.

        Args:
            question: Public text, or None.
            most: Phrases of one unit.
            embedder: Of phrases.
            randomness: Where coins and noise come from.

        Raises:
            EngineUnavailableError: The reader does not answer.
        """
        asked = question or _OF_WHOLE_UNITS
        found = self.search.search(question or "").choose(None, randomness)
        units = [tuple(own.text for own in passages) for passages in found.units.values()]
        said = phrases(self.reader, asked, most)(units, self.on_progress, list(found.units))
        return _embedded(said, embedder), found.rate


def _embedded(said: Sequence[Sequence[str]], embedder: Embedder) -> UnitVectors:
    texts = [phrase for own in said for phrase in own]
    numbers = [at for at, own in enumerate(said) for _ in own]
    parts = [np.zeros((0, 1), dtype=np.float32)] if not texts else []
    for first in range(0, len(texts), _EMBEDDED):
        parts.append(on_grid(embedder.embed(texts[first : first + _EMBEDDED])))
        give_way()
    vectors = np.concatenate(parts)
    return UnitVectors(vectors, np.array(numbers, dtype=np.int64))
