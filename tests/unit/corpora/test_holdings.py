"""Places of documents: noted with them, released with them, and who may see them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.holdings import Held, Holding, Holdings, StoredSource
from dpicl_rag.documents import Document, Origin
from tests.unit.conftest import HashingEmbedder, Killed

SOURCE = StoredSource("s", "files", "[]")


def placed(text: str, *places: str, unit: str = "") -> tuple[list[Document], Held]:
    """A document at places of the source."""
    document = Document(text, unit or text)
    return (
        [replace(document, origin=Origin(place=place)) for place in places],
        Held(SOURCE, [Holding(place, "s", "", "") for place in places]),
    )


def held(corpus: Corpus) -> dict[str, bool]:
    """By place, whether it has a document."""
    return {one.id: bool(one.document) for one in corpus.followed.held("s")}


def texts(corpus: Corpus) -> list[str]:
    return sorted(record.text for record in corpus.records())


def test_a_document_goes_with_its_last_place(corpus: Corpus) -> None:
    documents, places = placed("one", "a", "b")
    corpus.add(documents, held=places)
    assert held(corpus) == {"a": True, "b": True}
    assert corpus.followed.release(["a"]) == 0
    assert corpus.followed.release(["a"]) == 0
    assert texts(corpus) == ["one"]
    assert corpus.followed.release(["b"]) == 1
    assert texts(corpus) == []
    assert held(corpus) == {}


def test_a_document_that_is_there_is_known_at_new_places(
    corpus: Corpus, embedder: HashingEmbedder
) -> None:
    documents, places = placed("one", "a")
    corpus.add(documents)
    corpus.add(documents, held=places)
    assert embedder.embedded == 1
    assert corpus.followed.release(["a"]) == 1


def test_a_place_without_a_text_is_noted(corpus: Corpus) -> None:
    documents, places = placed(" ", "a", unit="blank")
    corpus.add(documents, held=places)
    corpus.add([], held=Held(SOURCE, [Holding("b", "s", "", "")]))
    assert held(corpus) == {"a": False, "b": False}
    assert corpus.followed.forgotten("s") == set()


def test_what_was_forgotten_is_told_from_what_is_gone(corpus: Corpus) -> None:
    for text in ("one", "two"):
        documents, places = placed(text, text)
        corpus.add(documents, held=places)
    corpus.delete_unit("one")
    assert corpus.followed.forgotten("s") == {"one"}


def test_a_released_unit_is_known_when_it_comes_back_under_another_name(corpus: Corpus) -> None:
    documents, places = placed("one", "a", unit="ann")
    corpus.add(documents, held=places)
    corpus.followed.release(["a"])
    later = Document("later", "other", origin=Origin(keys=("id 1", "unit ann")))
    corpus.add([later], no_ledger=True)
    assert [record.unit for record in corpus.records()] == ["ann"]


@pytest.mark.parametrize("what", ["note", "store"])
def test_a_kill_while_they_are_written_leaves_neither(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def killed(*_: object) -> None:
        raise Killed

    documents, places = placed("one", "a")
    with monkeypatch.context() as patch:
        patch.setattr(Holdings if what == "note" else Contents, what, killed)
        with pytest.raises(Killed):
            corpus.add(documents, held=places)
    assert (held(corpus), texts(corpus)) == ({}, [])
    corpus.add(documents, held=places)
    assert (held(corpus), texts(corpus)) == ({"a": True}, ["one"])


def test_nothing_private_is_shown(corpus: Corpus) -> None:
    documents, places = placed("plover-39", "place-39", unit="unit-39")
    corpus.add(documents, held=places)
    shown = [places, *places.holdings, corpus.followed, documents[0], documents[0].origin]
    assert "39" not in repr(shown)
