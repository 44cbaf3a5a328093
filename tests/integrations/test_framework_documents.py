"""Documents of LangChain and LlamaIndex are taken where the library's own are, by a named unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document as PageDocument
from llama_index.core import Document as LlamaDocument
from llama_index.core.schema import NodeWithScore, TextNode

from dpicl_rag import ConfigurationError, Document, Ledger, PrivateContextLLM, load
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.corpora import Corpus
from dpicl_rag.loaders.framework_documents import as_library_documents
from tests.integrations.test_support import QUESTION, SIZE, Coins, speech
from tests.support.bucket_embedder import BucketEmbedder

Fields = dict[str, Any]
MAKE: dict[str, Callable[[str, Fields], Any]] = {
    "LangChain": lambda text, fields: PageDocument(text, metadata=fields),
    "LlamaIndex document": lambda text, fields: LlamaDocument(text=text, metadata=fields),
    "LlamaIndex node": lambda text, fields: TextNode(text=text, metadata=fields),
    "LlamaIndex scored node": lambda text, fields: NodeWithScore(
        node=TextNode(text=text, metadata=fields), score=0.5
    ),
}
SAID = [
    *((f"agrees {number}", f"p{number % 20}") for number in range(40)),
    ("is silent", "q"),
    ("is silent", "r"),  # an equal text of somebody else
]
LOST: list[Fields] = [{}, {"patient": None}, {"patient": float("nan")}, {"other": "p1"}]


@pytest.fixture(params=MAKE)
def make(request) -> Callable[[str, Fields], Any]:
    return MAKE[request.param]


def theirs(make: Any, said: Sequence[tuple[str, str]] = SAID) -> list[Any]:
    return [make(text, {"patient": patient, "source": "a.txt"}) for text, patient in said]


def made(**settings: Any) -> PrivateContextLLM:
    model = SyntheticModel(SIZE, speech)
    return PrivateContextLLM(model, max_tokens=3, randomness=Coins(), **settings)


def by_patient(**settings: Any) -> PrivateContextLLM:
    return made(privacy_unit="patient", **settings)


OURS = [Document(text, patient) for text, patient in SAID]


class TestAnswers:
    async def test_are_those_of_the_library_s_own_documents(self, make) -> None:
        wanted, documents = made().answer(QUESTION, OURS), theirs(make)
        assert wanted.text == "abc"
        assert by_patient().answer(QUESTION, documents) == wanted
        assert await by_patient().aanswer(QUESTION, documents) == wanted
        assert "".join(by_patient().stream(QUESTION, documents)) == wanted.text
        labels = ["a", "b"]
        label = made().classify(QUESTION, OURS, labels)
        assert by_patient().classify(QUESTION, documents, labels) == label

    def test_without_a_named_unit_nothing_is_asked(self, make, tmp_path: Path) -> None:
        with Ledger(tmp_path / "ledger.db") as ledger:
            ledger.set_budget(corpus="mail", rho=9.0)
            llm = made(ledger=ledger, corpus="mail")
            with pytest.raises(ConfigurationError, match="privacy_unit='source'") as caught:
                llm.answer(QUESTION, theirs(make))
            assert "agrees" not in str(caught.value)
            assert llm.budget_left() == pytest.approx(9.0)

    @pytest.mark.parametrize("lost", LOST)
    def test_a_document_without_its_unit_is_left_out_silently(self, make, lost: Fields) -> None:
        wanted = by_patient().answer(QUESTION, theirs(make))
        beside = [make("agrees, unseen", lost), *theirs(make)]
        assert by_patient().answer(QUESTION, beside) == wanted
        assert [d.text for d in as_library_documents(beside, "patient")] == [
            text for text, _ in SAID
        ]

    def test_metadata_are_not_read(self, make) -> None:
        texts = {document.text for document in as_library_documents(theirs(make), "patient")}
        assert texts == {text for text, _ in SAID}


def test_a_source_is_that_of_llama_index() -> None:
    whole = LlamaDocument(text="a", id_="file 1")
    (found,) = as_library_documents([whole], "document_id")
    assert found.unit == "file 1"


def test_what_a_store_gave_has_its_name_there_and_what_was_read_that_of_its_text() -> None:
    """Random names would give a text a new budget in each run."""
    twice = [LlamaDocument(text="a"), LlamaDocument(text="a")]
    assert [twice[0].node_id] != [twice[1].node_id]
    first, second = as_library_documents(twice, "document")
    assert first.unit != second.unit
    assert [d.unit for d in as_library_documents([LlamaDocument(text="a")], "document")] == [
        first.unit
    ]
    node = TextNode(text="a", id_="n1")
    assert [d.unit for d in as_library_documents([NodeWithScore(node=node)], "document")] == ["n1"]
    assert [d.unit for d in as_library_documents([PageDocument("a", id="p1")], "document")] == [
        "p1"
    ]


class TestNeighbours:
    """Exact: what one unit brings moves nothing of the others."""

    @pytest.mark.parametrize("unit_field", ["patient", "document"])
    def test_of_a_list(self, make, unit_field: str) -> None:
        def units(said: Sequence[tuple[str, str]]) -> Counter[tuple[str, str]]:
            return Counter(
                (d.unit, d.text) for d in as_library_documents(theirs(make, said), unit_field)
            )

        whole = units(SAID)
        if unit_field == "patient":
            for patient in dict(SAID).values():
                left = units([one for one in SAID if one[1] != patient])
                assert left == {key: n for key, n in whole.items() if key[0] != patient}
        elif make is not MAKE["LlamaIndex scored node"]:  # whose names are random here
            for place in range(len(SAID)):
                left = units([*SAID[:place], *SAID[place + 1 :]])
                assert left <= whole
                assert (whole - left).total() == 1

    @pytest.mark.parametrize("unit", ["patient", "document"])
    def test_of_a_load(self, make, unit: str) -> None:
        def units(said: Sequence[tuple[str, str]]) -> Counter[tuple[str, str]]:
            return Counter((d.unit, d.text) for d in load(theirs(make, said), unit=unit).documents)

        if unit == "document" and make is MAKE["LlamaIndex scored node"]:
            return
        whole = units(SAID)
        for place in range(len(SAID)):
            left = units([*SAID[:place], *SAID[place + 1 :]])
            assert left <= whole
            assert (whole - left).total() == 1


class TestLoad:
    def test_units_and_what_was_skipped(self, make) -> None:
        documents = [*theirs(make), *(make("agrees", lost) for lost in LOST), make("  ", {})]
        found = load(iter(documents), unit="patient")
        assert found.report.unit == "the same patient"
        assert (found.report.read, found.report.loaded) == (len(SAID) + 5, len(SAID))
        assert [one.position for one in found.report.skipped] == [
            f"document {len(SAID) + number}" for number in range(1, 6)
        ]
        assert {one.reason for one in found.report.skipped} == {
            "no value for the privacy unit",
            "empty",
        }
        assert [d.unit for d in found.documents] == [patient for _, patient in SAID]
        assert found.documents[0].metadata["source"] == "a.txt"
        assert {d.origin.privacy_unit for d in found.documents} == {"patient"}

    def test_the_unit_must_be_named(self, make) -> None:
        with pytest.raises(ConfigurationError, match="unit='source' for load"):
            load(theirs(make))

    def test_other_fields_are_those_of_files(self, make) -> None:
        with pytest.raises(ConfigurationError, match="leave text_field"):
            load(theirs(make), unit="patient", text_field="body")

    def test_names_that_there_are_are_told(self, make) -> None:
        report = load(theirs(make), unit="customer").report
        assert (report.loaded, set(report.columns) >= {"patient"}) == (0, True)


class TestCorpus:
    @pytest.fixture
    def corpus(self, tmp_path: Path) -> Corpus:
        return Corpus.create("notes", tmp_path, embedder=BucketEmbedder())

    def test_takes_them_by_a_named_unit(self, make, corpus: Corpus) -> None:
        corpus.add(theirs(make), unit="patient", no_ledger=True)
        assert {(r.unit, r.text) for r in corpus.records()} == {(p, text) for text, p in SAID}
        again = corpus.add(theirs(make), unit="patient", no_ledger=True)
        assert again.passages == 0

    def test_the_unit_must_be_named(self, make, corpus: Corpus) -> None:
        with pytest.raises(ConfigurationError, match=r"Corpus\.add"):
            corpus.add(theirs(make))
        with pytest.raises(ConfigurationError, match=r"document 1: no value .*load"):
            corpus.add([make("agrees", {})], unit="patient")
        assert not corpus.records()

    def test_texts_have_their_units(self, corpus: Corpus) -> None:
        with pytest.raises(ConfigurationError, match="leave it out"):
            corpus.add(["a"], unit="patient")
