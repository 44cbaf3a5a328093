"""Flat FAISS indexes."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.retrieval.stored_record import NO_TEXT, NO_UNIT, NO_VECTOR, OTHER_LENGTH
from dpicl_rag.stores.faiss import FaissRecord, FaissVectors
from tests.support.scored_units import OneVector
from tests.support.stores import DIMENSION, EMBEDDER, FIELD, fixed

NEAR, FAR = fixed([[3, 1] + [0] * 6, [1, 3] + [0] * 6])


def source(
    rows: list[tuple[Any, Any]], unit_field: str = FIELD, embedder: Any = EMBEDDER
) -> FaissVectors:
    """Entries, or None, and their vectors."""
    index = faiss.IndexFlatL2(DIMENSION)
    index.add(np.array([vector for _, vector in rows], dtype=np.float32).reshape(-1, DIMENSION))
    return FaissVectors(
        index, lambda place: rows[place][0], unit_field=unit_field, embedder=embedder
    )


def units(made: FaissVectors, threshold: float = 0.9) -> list[str]:
    return sorted(d.unit for d in ThresholdRetriever(made, threshold).retrieve("q"))


def named(unit: str) -> FaissRecord:
    return FaissRecord(unit, {FIELD: unit}, "text")


def test_a_damaged_row_stops_nothing_and_its_owner_learns_of_it() -> None:
    made = source(
        [
            (named("whole"), NEAR),
            (None, NEAR),
            (FaissRecord("no text", {FIELD: "no text"}, None), NEAR),
            (FaissRecord("no unit", {}, "text"), NEAR),
            (named("zero"), np.zeros(DIMENSION)),
            (named("nan"), [np.nan] + [1] * 7),
            (named("infinite"), [np.inf] + [1] * 7),
            (named("huge"), NEAR * 3e38),
            (named("large"), NEAR * 1e19),
            (named("small"), NEAR * 1e-20),
            (named("tiny"), [3e-40, 1e-40] + [0] * 6),
            (named("far"), FAR),
        ]
    )
    near = ["huge", "large", "small", "tiny", "whole"]
    assert units(made) == near
    assert units(made, 0.0) == sorted([*near, "far", "infinite", "nan", "zero"])
    assert {(defect.id, defect.reason) for defect in made.check()} == {
        ("1", NO_TEXT),
        ("no text", NO_TEXT),
        ("no unit", NO_UNIT),
        *((unit, NO_VECTOR) for unit in ("zero", "nan", "infinite")),
    }


def test_vectors_of_another_length_score_nothing() -> None:
    made = source([(named("a"), NEAR)], embedder=OneVector([1.0, 0.0]))
    assert units(made) == []
    assert units(made, 0.0) == ["a"]
    assert [defect.reason for defect in made.check()] == [OTHER_LENGTH]


def test_each_entry_a_unit_and_an_empty_index() -> None:
    assert units(source([(named("a"), NEAR), (named("b"), FAR)], "document")) == ["a"]
    assert units(source([]), -1.0) == []


def test_more_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(named(f"{n}"), NEAR if n % 3 else FAR) for n in range(20_000)]
    assert len(source(rows).scan(EMBEDDER.vector, least=0.9).units) == 13_333


def indexes() -> dict[str, Any]:
    flat = faiss.IndexFlatL2(DIMENSION)
    made = {
        "IndexHNSWFlat": faiss.IndexHNSWFlat(DIMENSION, 8),
        "IndexIVFFlat": faiss.IndexIVFFlat(flat, DIMENSION, 1),
        "IndexLSH": faiss.IndexLSH(DIMENSION, 8),
        "IndexScalarQuantizer": faiss.index_factory(DIMENSION, "SQ8"),
        "IndexPreTransform": faiss.index_factory(DIMENSION, "PCA4,Flat"),
        "IndexRefineFlat": faiss.IndexRefineFlat(flat),
    }
    return {**made, "mapped": faiss.IndexIDMap2(faiss.IndexHNSWFlat(DIMENSION, 8))}


@pytest.mark.parametrize("name", indexes())
def test_other_indexes_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"approximate .* IndexFlatIP or IndexFlatL2"):
        FaissVectors(indexes()[name], {}.get, unit_field=FIELD, embedder=EMBEDDER)
