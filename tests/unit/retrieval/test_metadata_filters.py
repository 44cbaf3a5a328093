"""Filters on metadata decide as Chroma does."""

from __future__ import annotations

from typing import Any

import chromadb
import pytest
from chromadb.config import Settings

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.stored_record import filter_from

FIELDS: list[dict[str, Any]] = [
    {"a": "x"},
    {"a": 1},
    {"a": 1.0, "b": "x"},
    {"a": True},
    {"b": 2},
    {"a": 2.5, "b": 2},
    {"a": "1", "b": False},
    {"c": "none of them"},
]
WHERES: list[Any] = [
    {"a": 1},
    {"a": 1.0},
    {"a": True},
    {"a": "1"},
    {"a": {"$eq": "x"}},
    {"a": {"$ne": "x"}},
    {"a": {"$ne": 1}},
    {"a": {"$ne": True}},
    {"a": {"$gt": 0}},
    {"a": {"$gte": 1}},
    {"a": {"$lt": 2.5}},
    {"a": {"$lte": 2.5}},
    {"a": {"$in": ["x", "1"]}},
    {"a": {"$in": [1, 2]}},
    {"a": {"$nin": ["x"]}},
    {"$or": [{"a": "x"}, {"b": 2}]},
    {"$and": [{"a": {"$gt": 0}}, {"b": 2}]},
    {"$and": [{"$or": [{"a": 1}, {"a": 2.5}]}, {"b": {"$ne": 2}}]},
]


@pytest.fixture(scope="module")
def collection():
    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    made = client.get_or_create_collection("filters", embedding_function=None)
    ids = [str(n) for n in range(len(FIELDS))]
    made.upsert(ids, embeddings=[[1.0]] * len(ids), metadatas=FIELDS)
    return made


@pytest.mark.parametrize("where", WHERES, ids=str)
def test_as_chroma(collection, where: Any) -> None:
    passing = [str(n) for n, fields in enumerate(FIELDS) if filter_from(where).passes(fields)]
    assert passing == sorted(collection.get(where=where, include=[])["ids"])


@pytest.mark.parametrize("where", WHERES, ids=str)
def test_what_must_be_equal_is_necessary(where: Any) -> None:
    filter = filter_from(where)
    for fields in FIELDS:
        if filter.passes(fields):
            assert all(fields[name] in values for name, values in filter.equal.items())


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"a": 1, "b": 2},
        {"a": None},
        {"a": [1]},
        {"a": {"$gt": "x"}},
        {"a": {"$in": []}},
        {"a": {"$gt": 0, "$lt": 3}},
        {"a": {"$like": "x"}},
        {"$and": [{"a": 1}]},
        {"$not": {"a": 1}},
        {1: 2},
        "a = 1",
    ],
    ids=str,
)
def test_what_chroma_refuses_is_refused(where: Any) -> None:
    with pytest.raises(ConfigurationError, match="where is a Chroma filter"):
        filter_from(where)


def test_values_of_any_kind_stop_nothing() -> None:
    for value in ([1], {"x": 1}, None, float("nan"), 10**400):
        for where in WHERES:
            filter_from(where).passes({"a": value, "b": value})
