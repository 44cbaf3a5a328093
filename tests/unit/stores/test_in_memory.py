"""Vectors that another framework keeps in memory."""

from typing import Any

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.retrieval.stored_record import NO_UNIT, NO_VECTOR, OTHER_LENGTH, Defect, StoredRecord
from dpicl_rag.stores.in_memory import InMemoryVectors
from tests.support.scored_units import OneVector

ROWS = [
    (StoredRecord("1", "near", "secret text"), [0.9, 0.1]),
    (StoredRecord("2", "far", "text"), [0.1, 0.9]),
]


def test_it_is_searched_exactly_and_read_anew_each_time() -> None:
    rows = list(ROWS)
    retriever = ThresholdRetriever(InMemoryVectors(OneVector([1, 0]), lambda: rows), 0.5)
    assert [document.unit for document in retriever.retrieve("q")] == ["near"]
    rows.append((StoredRecord("3", "new", "text"), [2.0, 0.0]))
    assert {document.unit for document in retriever.retrieve("q")} == {"near", "new"}
    rows.clear()
    assert retriever.retrieve("q") == []


def test_it_has_no_filter() -> None:
    vectors = InMemoryVectors(OneVector([1, 0]), lambda: ROWS)
    with pytest.raises(ConfigurationError, match="where needs a Chroma collection"):
        vectors.scan([1, 0], where={"owner": "ann"})


@pytest.mark.parametrize("vector", [[1.0], [1.0, 0, 0], [], 1.0, [[1.0, 0]], ["a", 1], [None, {}]])
def test_a_vector_that_cannot_be_compared_scores_nothing_and_stops_nothing(vector: Any) -> None:
    rows = [*ROWS, (StoredRecord("3", "odd", "text"), vector)]
    source = InMemoryVectors(OneVector([1, 0]), lambda: rows)
    found = [document.unit for document in ThresholdRetriever(source, 0.001).retrieve("q")]
    assert sorted(found) == ["far", "near"]
    assert sorted(source.scan([1, 0]).scores)[0] == 0
    assert source.check() == [Defect("3", OTHER_LENGTH)]


def test_a_record_that_is_none_is_left_out() -> None:
    rows = [
        *ROWS,
        (Defect("3", NO_UNIT), [1.0, 0.0]),
        (StoredRecord("4", "zero", "text"), [0.0, 0.0]),
    ]
    rows.append((StoredRecord("5", "nan", "text"), [float("nan"), 1.0]))
    source = InMemoryVectors(OneVector([1, 0]), lambda: rows)
    assert sorted(source.scan([1, 0]).units) == ["far", "nan", "near", "zero"]
    assert source.check() == [Defect("3", NO_UNIT), Defect("4", NO_VECTOR), Defect("5", NO_VECTOR)]


def test_it_shows_nothing() -> None:
    assert repr(InMemoryVectors(OneVector([1, 0]), lambda: ROWS)) == "InMemoryVectors(<private>)"
