from collections import Counter

import numpy as np
import pytest

from dpicl_rag.documents import (
    Document,
    Origin,
    as_documents,
    group_by_unit,
    readable_documents,
    text_unit,
    unit_of,
)
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval import GivenDocuments


def test_strings_are_units_of_their_own_whatever_else_is_there():
    alone = as_documents(["x"])
    among = as_documents(["a", "x", "b"])
    assert alone[0].unit == among[1].unit
    assert len({document.unit for document in among}) == 3


def test_equal_strings_are_different_units():
    first, second = as_documents(["x", "x"])
    assert first.unit != second.unit
    # Removing either leaves the same corpus.
    assert as_documents(["x"])[0].unit == first.unit


def test_a_metadata_field_can_be_the_unit():
    documents = [Document("a", "1", {"patient": "p"}), Document("b", "2", {"patient": "p"})]
    assert {d.unit for d in as_documents(documents, "patient")} == {"p"}
    assert {d.unit for d in as_documents(documents)} == {"1", "2"}


@pytest.mark.parametrize(
    "broken",
    [
        Document("SECRET", "1", {"name": "SECRET"}),
        Document("SECRET", "1", {"patient": None}),
        Document(None, "1", {"patient": "SECRET"}),
        Document(float("nan"), "1", {"patient": "SECRET"}),
        None,
        float("nan"),
    ],
)
def test_what_cannot_be_read_is_an_error_for_its_owner_and_none_for_a_question(broken):
    whole = Document("a", "2", {"patient": "p"})
    with pytest.raises(ConfigurationError, match="'patient'") as caught:
        as_documents([whole, broken], "patient")
    assert "SECRET" not in str(caught.value)
    (left,) = readable_documents([broken, whole], "patient")
    assert (left.text, left.unit) == ("a", "p")


@pytest.mark.parametrize(
    "broken",
    [
        Document("SECRET", float("nan")),
        Document("SECRET", b"2"),
        Document("SECRET", None),
        Document("SECRET", ["2"]),
        Document("SECRET", 10**5000),
        Document("SECRET", "2", None),
        Document("SECRET", "2", [("a", "b")]),
        Document("SECRET", "2", origin=None),
        Document("SECRET", "2", origin=Origin(keys="id")),
        Document("SECRET", "2", origin=Origin(keys=(5,))),
        Document("SECRET", "2", origin=Origin(keys=("a",), offers=(b"a",))),
        Document("SECRET", "2", origin=Origin(privacy_unit=5)),
        Document("SECRET", "2", origin=Origin(record=float("nan"))),
    ],
)
def test_fields_of_other_types_are_an_error_for_their_owner_and_none_for_a_question(broken):
    whole = Document("a", "2", origin=Origin(keys=("i",)))
    with pytest.raises(ConfigurationError, match="another type") as caught:
        as_documents([whole, broken])
    assert "SECRET" not in str(caught.value)
    assert readable_documents([broken, whole, broken]) == [whole]
    given = GivenDocuments([broken, whole, broken])
    assert given.retrieve("?") == [whole]


def test_a_unit_that_is_a_number_is_its_digits():
    documents = readable_documents([Document("a", 5), Document("b", np.int64(5))])
    assert [document.unit for document in documents] == ["5", "5"]
    assert as_documents([Document("a", 5)])[0].unit == "5"


def test_the_unit_of_a_record():
    assert unit_of("id", {"page": float("nan")}, "page") is None
    assert unit_of("id", {}, "document") == "id"
    assert unit_of("id", {"document": "other"}, "document") == "id"
    assert unit_of("id", {"page": 1}, "page") == "1"
    assert unit_of("id", {"other": "x"}, "page") is None
    assert unit_of("id", {"page": None}, "page") is None


def test_the_unit_of_a_text_is_that_of_a_plain_string():
    seen = Counter()
    units = [text_unit(text, seen) for text in ("x", "y", "x")]
    assert units == [document.unit for document in as_documents(["x", "y", "x"])]


def test_other_types_are_refused():
    with pytest.raises(ConfigurationError, match="int"):
        as_documents([3])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="dict"):
        readable_documents([{}])  # type: ignore[list-item]


def test_repr_shows_nothing():
    assert "SECRET" not in repr(Document("SECRET", "SECRET", {"a": "SECRET"}))


def test_grouping_keeps_order():
    documents = [Document("1", "b"), Document("2", "a"), Document("3", "b")]
    grouped = group_by_unit(documents)
    assert list(grouped) == ["b", "a"]
    assert [d.text for d in grouped["b"]] == ["1", "3"]
