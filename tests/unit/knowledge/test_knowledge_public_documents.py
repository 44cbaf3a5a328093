"""Public texts: which sources are taken, and which are refused."""

from __future__ import annotations

import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import ConfigurationError, CorpusError, KnowledgeError
from dpicl_rag.knowledge import AnswerMemory, JoinedKnowledge, PublicDocuments, as_knowledge
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.stores.cached_vectors import InMemoryVectors
from tests.support.bucket_embedder import BucketEmbedder

TEXTS = ["canteen opens at seven", "canteen opens", "printer on floor two"]


@pytest.fixture
def open_corpus(tmp_path):
    def open_(name: str, **options) -> Corpus:
        return Corpus.create(name, tmp_path / "store", embedder=BucketEmbedder(), **options)

    return open_


@pytest.fixture
def handbook(open_corpus) -> Corpus:
    corpus = open_corpus("handbook", public=True)
    corpus.add(TEXTS)
    return corpus


class Document:
    def __init__(self, text) -> None:
        self.page_content = text


class Node:
    def __init__(self, text) -> None:
        self._text = text

    def get_content(self):
        return self._text


class LangChainLike:
    def __init__(self, texts) -> None:
        self._texts = texts

    def invoke(self, question):
        return [Document(text) for text in self._texts]


class LlamaIndexLike:
    def retrieve(self, question):
        return [Node(text) for text in TEXTS]


class Broken:
    def invoke(self, question):
        raise RuntimeError(question)


def test_a_public_corpus_gives_its_nearest_texts(handbook):
    assert PublicDocuments(handbook, most=2).recall("canteen opens") == [TEXTS[1], TEXTS[0]]
    assert PublicDocuments(handbook, least=0.999).recall("canteen opens") == [TEXTS[1]]
    assert PublicDocuments(handbook, least=0.9).recall("quorum of the board") == []


def test_an_empty_corpus_gives_nothing(open_corpus):
    assert PublicDocuments(open_corpus("empty", public=True)).recall("canteen") == []


def test_the_flag_is_kept_with_the_corpus(handbook, open_corpus, tmp_path):
    assert Corpus.open("handbook", tmp_path / "store", embedder=BucketEmbedder()).public
    assert not open_corpus("mail").public
    assert not Corpus.open("mail", tmp_path / "store", embedder=BucketEmbedder()).public


def test_a_corpus_stays_what_it_was_made_as(handbook, open_corpus):
    with pytest.raises(CorpusError, match="was made public and stays so; put private texts into"):
        open_corpus("handbook")
    open_corpus("mail")
    with pytest.raises(CorpusError, match="was made private and stays so; put public texts into"):
        open_corpus("mail", public=True)


def test_what_is_private_is_refused(open_corpus, handbook):
    mail = open_corpus("mail")
    in_memory = InMemoryVectors(BucketEmbedder(), list)
    for source in (mail, in_memory, ThresholdRetriever(mail), ThresholdRetriever(handbook)):
        with pytest.raises(ConfigurationError, match="is private; give a Corpus that"):
            as_knowledge(source)


def test_retrievers_of_other_libraries(handbook):
    assert PublicDocuments(LangChainLike(TEXTS), most=2).recall("q") == TEXTS[:2]
    assert PublicDocuments(LlamaIndexLike()).recall("q") == TEXTS
    assert PublicDocuments(LangChainLike(["", " "])).recall("q") == []


def test_a_retriever_that_fails_is_one_clear_line():
    with pytest.raises(KnowledgeError, match=r"source Broken failed \(RuntimeError\)"):
        PublicDocuments(Broken()).recall("q")
    with pytest.raises(KnowledgeError, match="gives no texts"):
        PublicDocuments(LangChainLike([None])).recall("q")


@pytest.mark.parametrize("given", ["a text", 7, ["a text"], Corpus, LangChainLike, object()])
def test_what_cannot_be_asked_is_refused(given):
    with pytest.raises(ConfigurationError, match="cannot be public knowledge"):
        as_knowledge(given)


def test_sources_are_read_in_their_order(handbook, tmp_path):
    with AnswerMemory(tmp_path / "m", "mail", embedder=BucketEmbedder()) as memory:
        memory.remember("canteen opens", "At seven.")
        both = as_knowledge([memory, PublicDocuments(handbook, most=2)])
        said = "Question: canteen opens\nAnswer: At seven."
        assert both.recall("canteen opens") == [said, TEXTS[1], TEXTS[0]]
        assert both.memory is memory
        assert as_knowledge(both) is both
        assert as_knowledge([both, handbook]).memory is memory
        with pytest.raises(ConfigurationError, match="one memory"):
            as_knowledge([memory, memory])


def test_no_knowledge_recalls_nothing():
    nothing = as_knowledge(None)
    assert (nothing.recall("q"), nothing.memory) == ([], None)
    assert isinstance(nothing, JoinedKnowledge)


def test_reprs_name_no_text(handbook):
    assert repr(as_knowledge(handbook)) == "JoinedKnowledge([PublicDocuments(Corpus)])"
