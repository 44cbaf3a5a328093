"""What callers may hand over, and what they may not."""

from typing import Any

import pytest

from dpicl_rag.accounting.stability import DIRECT, Stability
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, MissingDocumentsError
from dpicl_rag.retrieval import GivenDocuments, ThresholdRetriever, as_retriever
from tests.support.scored_units import ScoredUnits

NOTES = [Document("a", "1", {"patient": "p"}), Document("b", "2", {"patient": "p"})]


def test_a_list_is_one_unit_to_one_expert() -> None:
    retriever = as_retriever([*NOTES, "text"])
    assert retriever.stability == DIRECT
    search = retriever.search("q")
    assert search.units[:2] == ["1", "2"]
    assert [document.text for document in search.choose().documents] == ["a", "b", "text"]


def test_its_unit_may_be_a_field() -> None:
    assert as_retriever(NOTES, "patient").search("q").units == ["p"]
    assert as_retriever(NOTES, "owner").search("q").units == []
    alone = Document("c", "3", {"patient": "p", "owner": "o"})
    assert as_retriever([*NOTES, alone], "owner").search("q").units == ["o"]


def test_nothing_is_looked_at_before_the_search() -> None:
    looked = []
    retriever = as_retriever(looked.append(note) or note for note in NOTES)
    assert (looked, repr(retriever.source)) == ([], "GivenDocuments(<private>)")
    assert retriever.search("q").units == ["1", "2"]


def test_a_list_from_a_top_k_keeps_its_stability() -> None:
    assert GivenDocuments(NOTES, Stability(0, 1)).stability == Stability(0, 1)


def test_a_retriever_stays_as_it_is() -> None:
    retriever = ThresholdRetriever(ScoredUnits({}))
    assert as_retriever(retriever) is retriever
    with pytest.raises(ConfigurationError, match="privacy_unit"):
        as_retriever(retriever, "patient")


def test_no_documents_at_all() -> None:
    with pytest.raises(MissingDocumentsError, match="an empty one asks the public model"):
        as_retriever(None)  # type: ignore[arg-type]
    assert as_retriever([]).search("q").units == []


class Found:
    """A search of someone's own, with no word on its stability."""

    def retrieve(self, question: str) -> list[Document]:
        return NOTES


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ("secret", r"a list, not one string; pass .* ThresholdRetriever\(corpus\)"),
        (5, "documents must be a list, not int; pass a list of documents, or a retriever"),
        (Found(), "Found .* derive it from dpicl_rag.retrieval.ExactRetriever"),
    ],
)
def test_what_is_neither_a_list_nor_a_retriever(documents: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        as_retriever(documents)
    assert "secret" not in str(caught.value)
