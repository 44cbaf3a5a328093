"""Qdrant collections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient, models

from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.retrieval import ThresholdRetriever, TopKRetriever
from dpicl_rag.retrieval.stored_record import NO_TEXT, NO_UNIT, NO_VECTOR
from dpicl_rag.stores import qdrant
from dpicl_rag.stores.qdrant import QdrantVectors
from tests.support.stores import (
    DIMENSION,
    EMBEDDER,
    FIELD,
    QUESTION,
    Passages,
    fixed,
    in_corpus,
    in_qdrant,
    passages,
)

NEAR, FAR = fixed([[3, 1] + [0] * 6, [1, 3] + [0] * 6])
COSINE = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)


def collection(*points: models.PointStruct, vectors: Any = COSINE) -> QdrantClient:
    client = QdrantClient(":memory:")
    client.create_collection("notes", vectors_config=vectors)
    if points:
        client.upsert("notes", list(points))
    return client


def payload(metadata: Any, text: Any = "text") -> dict[str, Any]:
    return {"page_content": text, "metadata": metadata}


def at(number: int, fields: Any, vector: Any = NEAR, **named: Any) -> models.PointStruct:
    vector = named or np.asarray(vector).tolist()
    return models.PointStruct(id=number, vector=vector, payload=fields)


def source(client: Any, **options: Any) -> QdrantVectors:
    options = {"unit_field": FIELD, "embedder": EMBEDDER, **options}
    return QdrantVectors(client, "notes", **options)


def units(made: QdrantVectors, threshold: float = 0.9, where: Any = None) -> list[str]:
    found = ThresholdRetriever(made, threshold, where=where).retrieve("q")
    return sorted(document.unit for document in found)


def test_a_damaged_point_stops_nothing_and_its_owner_learns_of_it() -> None:
    client = collection(
        at(1, payload({FIELD: "whole"})),
        at(2, payload({FIELD: "no text"}, None)),
        at(3, payload({FIELD: "text is a number"}, 5)),
        at(4, payload({"owner": "ann"})),
        at(5, payload({FIELD: None})),
        at(6, payload({FIELD: ["a", "list"]})),
        at(7, payload("no mapping")),
        at(8, {}),
        at(9, payload({FIELD: "zero"}), np.zeros(DIMENSION)),
    )
    made = source(client)
    assert units(made) == ["whole"]
    assert units(made, 0.0) == ["whole", "zero"]
    assert {(defect.id, defect.reason) for defect in made.check()} == {
        *((number, NO_TEXT) for number in "23"),
        *((number, NO_UNIT) for number in "45678"),
        ("9", NO_VECTOR),
    }


def test_a_vector_that_a_server_kept_short_scores_nothing() -> None:
    """Servers leave vectors shorter than 0.00034 as they are, and score them by the product."""
    client = collection(at(1, payload({FIELD: "short"})), at(2, payload({FIELD: "whole"}), FAR))

    class Short(Server):
        def retrieve(self, *args: Any, **options: Any) -> Any:
            return [self._kept(point) for point in self._local.retrieve(*args, **options)]

        def query_points(self, *args: Any, **options: Any) -> Any:
            found = super().query_points(*args, **options).points
            return SimpleNamespace(points=[self._kept(point) for point in found])

        def scroll(self, *args: Any, **options: Any) -> Any:
            page, after = self._local.scroll(*args, **options)
            return [self._kept(point) for point in page], after

        def _kept(self, point: Any) -> Any:
            if point.id == 1 and point.vector is not None:
                point.vector = [1e-5 * value for value in point.vector]
            return point

    made = source(Short(client))
    assert units(made, 0.1) == ["whole"]
    assert units(made, 0.0) == ["short", "whole"]
    assert [d.unit for d in TopKRetriever(made, 1).retrieve("q")] == ["whole"]
    assert [(defect.id, defect.reason) for defect in made.check()] == [("1", NO_VECTOR)]


def test_units_that_are_no_strings_come_whole() -> None:
    values = [7, "7", True, "True", 1.5, "1.5", 2.0, "x", "1e999", "-1e-7"]
    client = collection(*(at(n, payload({FIELD: value})) for n, value in enumerate(values)))
    found = units(source(client))
    assert found == sorted(str(value) for value in values)


def test_fields_with_odd_names() -> None:
    client = collection(at(1, payload({"the unit.of it": "ann", 'a "quote"': 1})))
    made = source(client, unit_field="the unit.of it")
    assert units(made) == ["ann"]
    assert units(made, where={'a "quote"': 1}) == ["ann"]
    assert units(made, where={'a "quote"': 2}) == []


def test_each_point_a_unit() -> None:
    client = collection(at(3, payload({})), at(4, payload({}), FAR))
    assert units(source(client, unit_field="document")) == ["3"]


def test_named_vectors() -> None:
    params = {"dense": COSINE, "other": COSINE}
    both = at(1, payload({FIELD: "both"}), dense=NEAR.tolist(), other=FAR.tolist())
    one = at(2, payload({FIELD: "one"}), other=NEAR.tolist())
    client = collection(both, one, vectors=params)
    assert units(source(client, vector="dense")) == ["both"]
    assert units(source(client, vector="other")) == ["one"]
    assert units(source(client, vector="dense"), 0.0) == ["both", "one"]  # as a damaged one: 0
    with pytest.raises(ConfigurationError, match="no dense vector named 'third'"):
        units(source(client, vector="third"))


def test_more_than_is_asked_for_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant, "_FIRST", 4)
    monkeypatch.setattr(qdrant, "_PAGE", 7)
    client = collection(*(at(n, payload({FIELD: f"unit {n % 50}"})) for n in range(100)))
    made = source(client)
    assert len(made.scan(QUESTION, least=0.9).units) == 50
    assert len(ThresholdRetriever(made, 0.9).retrieve("q")) == 100


# Approximate searches


class Server:
    """A Qdrant server as far as a search goes: without ``exact`` it misses the nearest point."""

    def __init__(self, local: QdrantClient) -> None:
        self._local = local
        self._client = None
        self.asked: list[models.SearchParams | None] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)

    def query_points(self, *args: Any, search_params: Any, **options: Any) -> Any:
        self.asked.append(search_params)
        found = self._local.query_points(*args, **options)
        exact = search_params is not None and search_params.exact
        return SimpleNamespace(points=found.points if exact else found.points[1:])


def over_server(made: Passages) -> tuple[QdrantVectors, Server]:
    server = Server(in_qdrant(made)._client)
    return source(server, embedder=made.embedder), server


def differing() -> int:
    wrong = 0
    for seed in range(20):
        made = passages(seed)
        there, _ = over_server(made)
        here = in_corpus(made)
        for retriever in (lambda s: ThresholdRetriever(s, 0.3), lambda s: TopKRetriever(s, 3)):
            wrong += retriever(there).retrieve("q") != retriever(here).retrieve("q")
    return wrong


def test_a_server_is_asked_for_an_exact_search_without_quantised_vectors() -> None:
    assert differing() == 0
    made, server = over_server(passages(2))
    made.scan(QUESTION, least=0.1, most=2)
    assert server.asked
    for asked in server.asked:
        assert asked is not None
        assert asked.exact
        assert asked.quantization is not None
        assert asked.quantization.ignore


@pytest.mark.heavy
def test_a_search_that_is_not_exact_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault."""
    monkeypatch.setattr(qdrant, "_exactly", lambda client: models.SearchParams(exact=False))
    assert differing() > 0


# Refusals


def configured(**changes: Any) -> Any:
    """A client whose collection is configured in another way."""
    config = collection().get_collection("notes").config
    strict = changes.pop("strict", None)
    vectors = COSINE.model_copy(update=changes)
    params = config.params.model_copy(update={"vectors": vectors})
    config = config.model_copy(update={"params": params, "strict_mode_config": strict})
    return SimpleNamespace(get_collection=lambda name: SimpleNamespace(config=config))


@pytest.mark.parametrize("distance", ["Dot", "Euclid", "Manhattan"])
def test_other_distances(distance: str) -> None:
    with pytest.raises(ConfigurationError, match=r"made with Distance\.COSINE"):
        source(configured(distance=models.Distance(distance))).scan(QUESTION)


@pytest.mark.parametrize(
    "change",
    [
        {"datatype": models.Datatype.FLOAT16},
        {"datatype": models.Datatype.UINT8},
        {"multivector_config": models.MultiVectorConfig(comparator="max_sim")},
    ],
    ids=str,
)
def test_other_vectors(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="one float32 vector for each point"):
        source(configured(**change)).scan(QUESTION)


def test_limits_that_would_fail_only_where_much_is_near() -> None:
    strict = models.StrictModeConfigOutput(enabled=True, max_query_limit=100)
    with pytest.raises(ConfigurationError, match="max_query_limit"):
        source(configured(strict=strict)).scan(QUESTION)


def test_an_asynchronous_client() -> None:
    with pytest.raises(ConfigurationError, match="give a QdrantClient"):
        source(AsyncQdrantClient(":memory:"))


def test_errors_quote_nothing() -> None:
    made = source(QdrantClient(":memory:"))
    with pytest.raises(
        CorpusError, match=r"the Qdrant collection refused or failed \(ValueError\)"
    ):
        made.scan(QUESTION)
    assert repr(made) == "QdrantVectors('notes')"
