"""A bundle before documents, and in their place: what it has is free, at every kind of question."""

from __future__ import annotations

import pytest

from dpicl_rag import Bundle, publish
from dpicl_rag.results import UNSUPPORTED
from tests.support.bucket_embedder import BucketEmbedder
from tests.unit.publishing.conftest import QUESTION, REQUESTS, TOLD

FREE = (0.0, 0.0, 0.0, True)


@pytest.fixture
def bundle(corpus, make_llm, tmp_path):
    publish(make_llm(), corpus, tmp_path / "bundle", REQUESTS, epsilon=6.0)
    return Bundle.open(tmp_path / "bundle", embedder=BucketEmbedder())


def price(found):
    return found.epsilon, found.delta, found.rho, found.from_memory


def spent(ledger):
    return [one.spent for one in ledger.status()]


def test_without_documents_it_answers_what_it_has(bundle, make_llm):
    answer = make_llm().answer(QUESTION, bundle)
    assert (answer.text, answer.by, answer.supported) == (TOLD, "published", True)
    assert price(answer) == FREE
    lacking = make_llm().answer("Who repairs the lift?", bundle)
    assert (lacking.text, lacking.by, lacking.supported) == (UNSUPPORTED, None, False)
    assert lacking.rho == 0


def test_before_documents_it_is_read_for_nothing(bundle, corpus, ledger, make_llm):
    llm = make_llm(ledger, knowledge=bundle)
    tally = REQUESTS[1]
    found = [
        llm.answer(QUESTION, corpus),
        llm.survey(None, corpus),
        llm.tally(tally.question, tally.labels, corpus, by="vectors"),
    ]
    assert [one.text for one in found] == [TOLD, bundle.items[0].text, bundle.items[1].text]
    assert [price(one) for one in found] == [FREE] * 3
    assert spent(ledger) == [0.0]


def test_other_words_and_labels_and_what_is_asked_anew_are_paid_for(
    bundle, corpus, ledger, make_llm
):
    llm = make_llm(ledger, knowledge=bundle, epsilon=0.5)
    survey, tally, _ = REQUESTS
    assert not llm.tally(tally.question, ("noon", "sauna"), corpus, by="vectors").from_memory
    assert not llm.survey(None, corpus, vocabulary=survey.vocabulary).from_memory
    assert not llm.tally(tally.question, tally.labels, corpus, by="vectors", fresh=True).from_memory
    assert not llm.answer(QUESTION, corpus, fresh=True).from_memory
    assert spent(ledger) > [0.0]
