"""Vectors that another framework keeps in memory."""

import pytest

from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.retrieval.memory import InMemoryVectors
from dpicl_rag.retrieval.passages import Record
from tests.support.scored_units import OneVector

ROWS = [(Record("1", "near", "secret text"), [0.9, 0.1]), (Record("2", "far", "text"), [0.1, 0.9])]


def test_it_is_searched_exactly_and_read_anew_each_time() -> None:
    rows = list(ROWS)
    retriever = ThresholdRetriever(InMemoryVectors(OneVector([1, 0]), lambda: rows), 0.5)
    assert [document.unit for document in retriever.retrieve("q")] == ["near"]
    rows.append((Record("3", "new", "text"), [2.0, 0.0]))
    assert {document.unit for document in retriever.retrieve("q")} == {"near", "new"}
    rows.clear()
    assert retriever.retrieve("q") == []


def test_it_has_no_filter() -> None:
    vectors = InMemoryVectors(OneVector([1, 0]), lambda: ROWS)
    with pytest.raises(ConfigurationError, match="where needs a Chroma collection"):
        vectors.snapshot({"owner": "ann"})


def test_vectors_of_several_lengths_are_an_error_that_tells_no_count() -> None:
    rows = [*ROWS, (Record("3", "odd", "text"), [1.0])]
    with pytest.raises(CorpusError) as caught:
        InMemoryVectors(OneVector([1, 0]), lambda: rows).snapshot()
    assert str(caught.value) == (
        "the vectors of a store must be numbers, all of one length; fill it with one embedder"
    )
    assert caught.value.__suppress_context__


def test_it_shows_nothing() -> None:
    assert repr(InMemoryVectors(OneVector([1, 0]), lambda: ROWS)) == "InMemoryVectors(<private>)"
