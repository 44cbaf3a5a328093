"""The demo's agent: its model is scripted, its tools are not."""

import pytest

from demos.counting_agent import FACT, HOW_MANY, SCRIPT, WHAT_ABOUT, agent_over
from dpicl_rag import Corpus, Document, Ledger, PrivateContextLLM
from tests.support.bucket_embedder import BucketEmbedder

THREADS = [Document(f"The product is called Zephyrix. Refund {n}", f"t{n}") for n in range(30)]


@pytest.fixture
def spending(tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_budget(corpus="mail", rho=100.0)
        yield ledger


@pytest.fixture
def answer(tmp_path, tiny_model, spending):
    corpus = Corpus.create("mail", tmp_path / "corpora", embedder=BucketEmbedder())
    corpus.add(THREADS, ledger=spending)
    llm = PrivateContextLLM(tiny_model, ledger=spending, max_tokens=4)
    yield agent_over(llm, corpus)
    corpus.close()


def test_each_question_goes_to_its_tool_and_is_paid_for(answer, spending):
    assert " say yes. " in answer(HOW_MANY)
    counted = spending.status()[0].spent
    assert counted > 0
    assert answer(WHAT_ABOUT).endswith("were not seen.")
    surveyed = spending.status()[0].spent
    assert surveyed > counted
    assert answer(FACT)
    assert spending.status()[0].spent > surveyed


def test_the_script_has_a_tool_for_each_kind():
    assert len({name for name, _ in SCRIPT.values()}) == 3
