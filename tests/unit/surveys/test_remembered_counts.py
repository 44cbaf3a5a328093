"""Counts that were released before: free where they are as exact, and nothing else's."""

import sqlite3
from contextlib import closing

import pytest

from dpicl_rag import AnswerMemory, Corpus, Document, Ledger, PrivateContextLLM
from dpicl_rag.errors import ConfigurationError, KnowledgeError
from dpicl_rag.retrieval import ThresholdRetriever, TopKRetriever
from tests.support.bucket_embedder import BucketEmbedder

QUESTION = "Is it about a parcel?"
LABELS = ["parcel", "refund"]
WORDS = ("parcel", "refund", "kettle", "day")


@pytest.fixture
def corpus(tmp_path):
    found = Corpus.create("mail", tmp_path, embedder=BucketEmbedder())
    found.add([Document(f"a parcel of day {n}", f"u{n}") for n in range(12)], no_ledger=True)
    yield found
    found.close()


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as found:
        yield found


@pytest.fixture
def memory(tmp_path):
    with AnswerMemory(tmp_path / "memory", "mail", embedder=BucketEmbedder()) as found:
        yield found


@pytest.fixture
def llm(tiny_model, ledger, memory):
    """Counts at an epsilon, and what the ledger has booked."""

    def make(epsilon=1.0, **settings):
        return PrivateContextLLM(
            tiny_model, ledger=ledger, knowledge=memory, epsilon=epsilon, **settings
        )

    return make


KINDS = {
    "count": lambda llm, corpus, **given: llm.count(QUESTION, corpus, **given),
    "tally": lambda llm, corpus, **given: llm.tally(QUESTION, LABELS, corpus, **given),
    "vectors": lambda llm, corpus, **given: llm.tally(
        QUESTION, LABELS, corpus, by="vectors", **given
    ),
    "survey": lambda llm, corpus, **given: llm.survey(None, corpus, vocabulary=WORDS, **given),
}


def spent(ledger):
    return sum(one.spent for one in ledger.status() if one.kind == "corpus")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_again_is_what_it_was_and_free(llm, corpus, ledger, kind):
    first = KINDS[kind](llm(), corpus)
    paid = spent(ledger)
    again = KINDS[kind](llm(), corpus)
    assert (again.epsilon, again.delta, again.rho, again.from_memory) == (0.0, 0.0, 0.0, True)
    assert again.text == first.text
    free = {"epsilon": 0.0, "delta": 0.0, "rho": 0.0, "from_memory": True}
    assert again.as_dict() == {**first.as_dict(), **free}
    assert spent(ledger) == paid


@pytest.mark.parametrize("kind", KINDS)
def test_a_noisier_one_is_counted_anew_and_a_more_exact_one_is_given_back(llm, corpus, kind):
    assert not KINDS[kind](llm(1.0), corpus).from_memory
    exact = KINDS[kind](llm(2.0), corpus)
    assert not exact.from_memory
    assert KINDS[kind](llm(1.0), corpus).text == exact.text
    assert not KINDS[kind](llm(1.0), corpus, fresh=True).from_memory


def test_what_shapes_a_count_is_part_of_it(llm, corpus):
    one = llm()
    one.count(QUESTION, corpus)
    one.tally(QUESTION, LABELS, corpus)
    others = [
        one.count("Is it about a kettle?", corpus),
        one.count(QUESTION, corpus, sample=0.5),
        one.count(QUESTION, ThresholdRetriever(corpus, 0.1)),
        one.count(QUESTION, ThresholdRetriever(corpus, 0.2)),
        one.tally(QUESTION, ["parcel", "kettle"], corpus),
        one.tally(QUESTION, LABELS, corpus, most=2),
        one.tally(QUESTION, LABELS, corpus, by="vectors"),
        one.survey(None, corpus, vocabulary=WORDS),
        one.survey(None, corpus, vocabulary=WORDS, votes=1),
        one.survey(QUESTION, corpus, vocabulary=WORDS),
        llm(adjacency="replace_one").count(QUESTION, corpus),
        llm(unit_tokens=8).count(QUESTION, corpus),
    ]
    assert not any(found.from_memory for found in others)
    assert one.count(QUESTION, ThresholdRetriever(corpus, 0.2)).from_memory


def test_a_list_is_a_corpus_where_it_is_said_to_be_one(llm):
    papers = [Document("a parcel", "u1")]
    with pytest.raises(ConfigurationError, match="these documents name no corpus"):
        llm().count(QUESTION, papers)
    assert not llm(corpus="mail").count(QUESTION, papers).from_memory
    assert llm(corpus="mail").count(QUESTION, papers).from_memory


def test_units_of_a_search_that_cuts_are_not_remembered(llm, corpus):
    few = TopKRetriever(corpus, 3)
    assert not llm(accounting="fixed").count(QUESTION, few).from_memory
    assert not llm(accounting="fixed").count(QUESTION, few).from_memory


def test_the_memory_of_another_corpus_is_refused(tiny_model, corpus, tmp_path):
    with AnswerMemory(tmp_path / "other", "other", embedder=BucketEmbedder()) as other:
        llm = PrivateContextLLM(tiny_model, knowledge=other)
        with pytest.raises(ConfigurationError, match="corpus 'other'"):
            llm.count(QUESTION, corpus)
        with pytest.raises(ConfigurationError, match="corpus 'other'"):
            llm.survey(None, corpus, vocabulary=WORDS)


def test_a_count_informs_no_answer_and_is_none(llm, corpus, memory):
    llm().count(QUESTION, corpus)
    assert len(memory.entries()) == 1
    assert memory.recall(QUESTION) == []
    assert memory.same(QUESTION, memory.entries()[0].text) is None
    memory.remember(QUESTION, "All of them.")  # by hand, in any form
    assert llm().count(QUESTION, corpus).from_memory
    assert memory.same(QUESTION).answer == "All of them."


def test_a_damaged_count_is_an_error_and_costs_nothing(llm, corpus, memory, ledger, tmp_path):
    llm().count(QUESTION, corpus)
    paid = spent(ledger)
    with closing(sqlite3.connect(tmp_path / "memory")) as file, file:
        file.execute("UPDATE entry SET numbers = '{}'")
    with pytest.raises(KnowledgeError, match="memory forget 1"):
        llm().count(QUESTION, corpus)
    assert spent(ledger) == paid


def test_a_count_is_no_answer_and_an_answer_no_count(memory):
    """Whatever their forms: what is released by one is not what the other was paid for."""
    for number, (question, kept) in enumerate({"a?": "same_count", "b?": "same"}.items()):
        numbers = "" if number else "{}"
        memory.remember(
            question, "about 3", epsilon=1.0, delta=0.0, form="f", numbers=numbers, whole=True
        )
        for find in ("same", "same_count"):
            found = getattr(memory, find)(question, "f")
            assert (found is not None) == (find == kept)
