"""A Qdrant collection, searched with ``exact=True``: no graph, no quantised vectors."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from dpicl_rag._packaged import optional
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import (
    NO_UNIT,
    Defect,
    MetadataFilter,
    StoredRecord,
    record_of,
)
from dpicl_rag.stores.exact_store import ExactStore, QuestionVector, ScoredRow, StoreReading, T

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

Payload = Mapping[str, Any]
_PAGE = 256  # points fetched with their vectors at a time: 2 MB at 1536 dimensions
_FIRST = 1024  # points nominated at first
_SLACK = 1e-3  # more than float32 and any length that servers take for 1 leave
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_FRACTION = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")


class QdrantVectors(ExactStore):
    """A `VectorSource` over a Qdrant collection with cosine distance, local or on a server.

    Args:
        client: The client; not an asynchronous one.
        collection: Name of the collection. Public.
        unit_field: Metadata field that holds the privacy unit, a string, number or boolean;
            ``"document"`` makes each point a unit.
        embedder: The model that the collection was filled with.
        metadata: Field of the payload that holds the metadata; None if the payload itself does.
        text: Field of the payload that holds the text, or a function that gets it.
        vector: Name of the vector; empty for the unnamed one.

    Raises:
        ConfigurationError: The client is asynchronous.
        MissingDependencyError: ``qdrant-client`` is not installed.
    """

    kind = "Qdrant collection"

    def __init__(
        self,
        client: QdrantClient,
        collection: str,
        *,
        unit_field: str,
        embedder: Embedder,
        metadata: str | None = "metadata",
        text: str | Callable[[Payload], object] = "page_content",
        vector: str = "",
    ) -> None:
        optional("qdrant_client", "dpicl-rag[qdrant]", "qdrant-client")
        if inspect.iscoroutinefunction(client.get_collection):
            raise ConfigurationError("give a QdrantClient; an asynchronous one is not searched")
        self.name = self._collection = collection
        self.embedder = embedder
        self.unit_field: str = unit_field
        self._client = client
        self._points = _Points(
            unit_field, metadata, text if callable(text) else lambda payload: payload.get(text)
        )
        self._vector = vector

    def read(self, filter: MetadataFilter, work: Callable[[StoreReading], T]) -> T:
        """A reading of the collection; see `ExactStore.read`."""
        config = self._client.get_collection(self._collection).config
        _require_cosines(config.params.vectors, self._vector)
        strict = config.strict_mode_config
        if strict is not None and strict.enabled and strict.max_query_limit is not None:
            raise ConfigurationError(
                "the strict mode of the Qdrant collection limits results (max_query_limit), so it "
                "would fail only where much is near; lift that limit"
            )
        return work(
            _QdrantReading(self._client, self._collection, self._vector, self._points, filter)
        )


def _require_cosines(vectors: Any, name: str) -> None:
    from qdrant_client import models

    if isinstance(vectors, Mapping):
        vectors = vectors.get(name)
    if vectors is None:
        raise ConfigurationError(f"the Qdrant collection has no dense vector named {name!r}")
    if vectors.distance != models.Distance.COSINE:
        raise ConfigurationError(
            "the Qdrant collection must be made with Distance.COSINE: thresholds are cosines"
        )
    single = vectors.multivector_config is None
    if not single or vectors.datatype not in (None, models.Datatype.FLOAT32):
        raise ConfigurationError(
            "the Qdrant collection must hold one float32 vector for each point: how far its scores "
            "are from exact ones is not known of others"
        )


def of_length_1(vector: Any) -> Any:
    """A stored vector, or zeros where a server kept it shorter.

    Servers divide vectors by their length, but for those shorter than about 0.0003, and score by
    products: such a vector has a score that is no cosine, and no search finds it. So it scores 0,
    as one without a direction does.
    """
    if not isinstance(vector, Sequence):
        return vector
    row = np.asarray(vector, dtype=np.float64)
    return vector if abs(np.linalg.norm(row) - 1) < _SLACK else np.zeros_like(row)


def _exactly(client: QdrantClient) -> models.SearchParams | None:
    from qdrant_client import models
    from qdrant_client.local.qdrant_local import QdrantLocal

    if isinstance(client._client, QdrantLocal):
        return None  # it compares all vectors, and warns of any parameters
    ignored = models.QuantizationSearchParams(ignore=True)
    return models.SearchParams(exact=True, quantization=ignored)


@dataclass(frozen=True, repr=False)
class _Points:
    """A reader of the points of a collection. It returns private records."""

    unit_field: str
    metadata: str | None
    text: Callable[[Payload], object]

    def fields(self, payload: Payload) -> Payload:
        fields = payload if self.metadata is None else payload.get(self.metadata)
        return fields if isinstance(fields, Mapping) else {}

    def record(self, id: object, payload: Payload | None) -> StoredRecord | Defect:
        payload = payload or {}
        fields, field = self.fields(payload), self.unit_field
        if field != "document" and not isinstance(fields.get(field), (str, int, float)):
            return Defect(str(id), NO_UNIT)  # lists and the like, which no filter finds again
        return record_of(id, fields, self.text(payload), field)

    def of_units(self, units: Sequence[str]) -> models.Filter:
        """Every point of these units, and maybe others."""
        from qdrant_client import models

        if self.unit_field == "document":
            ids: list[Any] = [int(unit) if unit.isdecimal() else unit for unit in units]
            return models.Filter(must=[models.HasIdCondition(has_id=ids)])
        key = self._key(self.unit_field)
        strings = models.MatchAny(any=list(units))
        integers = models.MatchAny(any=[int(unit) for unit in units if _INTEGER.fullmatch(unit)])
        others = [value for unit in units for value in _written(unit)]
        return models.Filter(
            should=[
                models.FieldCondition(key=key, match=strings),
                models.FieldCondition(key=key, match=integers),
                *(_equal(key, value) for value in others),
            ]
        )

    def passing(self, filter: MetadataFilter) -> models.Filter:
        """Every point that passes a filter, and maybe others."""
        from qdrant_client import models

        return models.Filter(
            must=[
                models.Filter(should=[_equal(self._key(field), value) for value in values])
                for field, values in filter.equal.items()
                if '"' not in field  # which no path can name
            ]
        )

    def _key(self, field: str) -> str:
        path = field if re.fullmatch(r"[A-Za-z0-9_-]+", field) else f'"{field}"'
        return path if self.metadata is None else f"{self.metadata}.{path}"


def _equal(key: str, value: str | float | bool) -> models.FieldCondition:
    from qdrant_client import models

    if isinstance(value, (str, bool)):
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))


def _written(unit: str) -> list[float | bool]:
    """The boolean, or the number with a fraction, that is written like this."""
    if unit in ("True", "False"):
        return [unit == "True"]
    value = float(unit) if _FRACTION.fullmatch(unit) else math.inf
    return [value] if math.isfinite(value) else []


@dataclass(frozen=True, repr=False)
class _QdrantReading:
    """A `StoreReading` of a collection."""

    client: QdrantClient
    collection: str
    vector: str
    points: _Points
    filter: MetadataFilter

    def best(self, question: QuestionVector, count: int) -> Sequence[tuple[str | None, float]]:
        found = self._search(question, count, with_payload=True)
        return [(self._unit(point.id, point.payload), point.score) for point in found]

    def near(self, question: QuestionVector, floor: float) -> Iterator[ScoredRow]:
        for point in self._nominated(question, floor):
            unit = self._unit(point.id, point.payload)
            if unit is not None:
                yield ScoredRow(unit, self._vector_of(point))

    def members(self, units: Sequence[str]) -> Iterator[tuple[StoredRecord, Any]]:
        wanted = frozenset(units)
        for first in range(0, max(1, len(units)), _PAGE):
            page = units[first : first + _PAGE]
            for point in self._scrolled(self.points.of_units(page)):
                record = self.points.record(point.id, point.payload)
                if (
                    isinstance(record, StoredRecord)
                    and self._unit(point.id, point.payload) in wanted
                ):
                    yield record, self._vector_of(point)

    def everything(self) -> Iterator[tuple[StoredRecord | Defect, Any]]:
        for point in self._scrolled(None):
            yield self.points.record(point.id, point.payload), self._vector_of(point)

    def _nominated(self, question: QuestionVector, floor: float) -> Iterator[Any]:
        """Points near enough, with payload and vector."""
        if floor <= 0 or not question.any():
            # A zero vector scores 0, and may have no score in the store.
            yield from self._scrolled(self.points.passing(self.filter))
            return
        count = _FIRST
        while len(found := self._search(question, count, score_threshold=floor)) == count:
            count *= 4
        ids = iter([point.id for point in found])
        while page := list(islice(ids, _PAGE)):
            yield from self.client.retrieve(
                self.collection, page, with_payload=True, with_vectors=self._with_vectors
            )

    def _search(self, question: QuestionVector, count: int, **options: Any) -> list[Any]:
        return self.client.query_points(
            self.collection,
            query=question.tolist(),
            using=self.vector or None,
            query_filter=self.points.passing(self.filter),
            limit=count,
            search_params=_exactly(self.client),
            **{"with_payload": False, "with_vectors": False, **options},
        ).points

    def _scrolled(self, filter: models.Filter | None) -> Iterator[Any]:
        after: Any = None
        while True:
            page, after = self.client.scroll(
                self.collection,
                scroll_filter=filter,
                limit=_PAGE,
                offset=after,
                with_payload=True,
                with_vectors=self._with_vectors,
            )
            yield from page
            if after is None:
                return

    @property
    def _with_vectors(self) -> bool | list[str]:
        return [self.vector] if self.vector else True

    def _vector_of(self, point: Any) -> Any:
        vector = point.vector
        return of_length_1(vector.get(self.vector) if isinstance(vector, Mapping) else vector)

    def _unit(self, id: object, payload: Payload | None) -> str | None:
        record = self.points.record(id, payload)
        if not isinstance(record, StoredRecord):
            return None
        return record.unit if self.filter.passes(self.points.fields(payload or {})) else None
