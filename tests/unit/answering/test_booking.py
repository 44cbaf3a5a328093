"""Under which corpus the answers of a private language model are booked."""

from __future__ import annotations

import math

import pytest

from dpicl_rag import (
    BudgetExceededError,
    Corpus,
    Ledger,
    NoBudgetWarning,
    PoissonSampledRetriever,
    PrivateContextLLM,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
    ThresholdRetriever,
    TopKRetriever,
)
from tests.support.bucket_embedder import BucketEmbedder

DOCUMENTS = [f"document {number}" for number in range(4)]


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


@pytest.fixture
def mail(tmp_path):
    corpus = Corpus.create("mail", tmp_path / "store", embedder=BucketEmbedder())
    corpus.add(DOCUMENTS)
    yield corpus
    corpus.close()


RETRIEVERS = {
    "threshold": lambda corpus: ThresholdRetriever(corpus, -1),
    "top-k": lambda corpus: TopKRetriever(corpus, 2),
    "sampled": lambda corpus: PoissonSampledRetriever(ThresholdRetriever(corpus, -1), 0.5),
    "private threshold": lambda corpus: PrivateThresholdRetriever(
        corpus, 2, sigma=3.0, thresholds=(-1,)
    ),
    "private top-k": lambda corpus: PrivateTopKRetriever(corpus, 2, sigma=7.5),
}


@pytest.mark.parametrize("name", RETRIEVERS)
def test_answers_are_booked_under_the_corpus_of_their_retriever(name, tiny_model, ledger, mail):
    ledger.set_budget(corpus="mail", rho=3.0)
    llm = PrivateContextLLM(tiny_model, ledger=ledger, max_tokens=1, epsilon=2)
    answer = llm.answer("q?", RETRIEVERS[name](mail))
    llm.classify("q?", RETRIEVERS[name](mail), ["a", "b"])
    [status] = ledger.status()
    assert (status.name, status.questions, answer.corpus) == ("mail", 2, "mail")
    assert llm.public_numbers(answer)["budget_left"] == status.remaining < 3.0
    ledger.set_budget(corpus="mail", rho=1e-6)
    with pytest.raises(BudgetExceededError, match="corpus 'mail'"):
        llm.with_settings(accounting="fixed").answer("q?", RETRIEVERS[name](mail))


def test_a_corpus_that_is_named_is_the_one_that_pays(tiny_model, ledger, mail):
    ledger.set_budget(corpus="letters", rho=math.inf)
    llm = PrivateContextLLM(tiny_model, ledger=ledger, corpus="letters", max_tokens=1)
    llm.answer("q?", ThresholdRetriever(mail))
    assert [status.name for status in ledger.status()] == ["letters"]


@pytest.mark.parametrize("settings", [{}, {"accounting": "fixed"}])
def test_the_one_that_pays_follows_joins_of_the_corpus(settings, tiny_model, ledger, mail):
    """Or a person whose mails become one unit would have two budgets."""
    ledger.set_budget(corpus="letters", rho=20.0)
    llm = PrivateContextLLM(tiny_model, ledger=ledger, corpus="letters", max_tokens=1, **settings)
    llm.answer("q?", ThresholdRetriever(mail))
    first, second, *_ = sorted({record.unit for record in mail.records()})
    for corpus, roots in (("shop", 2), ("mail", 1)):
        ledger.merge_units(corpus, {first: second})
        with ledger.reserve(corpus="letters", rho=1.0, units=[first, second]) as held:
            assert sum(limit > 0 for limit in held.limits) == roots


def test_lists_are_booked_under_default_and_a_ledger_without_a_budget_warns(tiny_model, ledger):
    ledger.set_budget(corpus="mail", rho=3.0)
    llm = PrivateContextLLM(tiny_model, ledger=ledger, max_tokens=1)
    with pytest.warns(NoBudgetWarning, match="no budget for corpus 'default'"):
        assert llm.answer("q?", DOCUMENTS).corpus == "default"
