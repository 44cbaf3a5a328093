"""Every retriever answers through every door, and costs the same at each."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpicl_rag import (
    Corpus,
    Document,
    Ledger,
    PoissonSampledRetriever,
    PrivateContextLLM,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
    ThresholdRetriever,
    TopKRetriever,
)
from dpicl_rag.cli import data_folder
from dpicl_rag.mechanisms import randomness
from langchain_dpicl_rag import PrivateCombineDocuments, PrivateRetrievalChain
from llama_index_dpicl_rag import PrivateQueryEngine
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.command_line import run_command
from tests.support.scripted_model import ScriptedModel

QUESTION = "When does the depot open?"
NOTES = [Document(f"The depot opens at seven, note {n}.", f"unit {n}") for n in range(24)]
MODEL = ScriptedModel({"seven": "It opens at seven.", "": "I cannot know."})

RETRIEVERS = {
    "none but the corpus": (lambda corpus: corpus, []),
    "threshold": (lambda corpus: ThresholdRetriever(corpus, 0.2), ["--threshold", "0.2"]),
    "top-k": (lambda corpus: TopKRetriever(corpus, 3), ["--top-k", "3"]),
    "sampled": (
        lambda corpus: PoissonSampledRetriever(ThresholdRetriever(corpus, 0.2), 0.5),
        ["--threshold", "0.2", "--sample", "0.5"],
    ),
    "private threshold": (
        lambda corpus: PrivateThresholdRetriever(corpus, 4),
        ["--units", "4"],
    ),
    "private top-k": (
        lambda corpus: PrivateTopKRetriever(corpus, 4),
        ["--private-top-k", "4"],
    ),
}

AGREEING = ("none but the corpus", "threshold", "sampled")
"""Those that find enough units, each of which pays for itself."""


def core(llm, retriever, options) -> str:
    return llm.answer(QUESTION, retriever).text


def command_line(llm, retriever, options) -> str:
    words = ["ask", QUESTION, "--corpus", "notes", "--unsupported", "refuse", "--json", *options]
    done = run_command(*words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["answer"]


def langchain_chain(llm, retriever, options) -> str:
    return PrivateRetrievalChain(retriever, llm=llm).invoke(QUESTION)


def langchain_tool(llm, retriever, options) -> str:
    return PrivateRetrievalChain(retriever, llm=llm).as_tool().invoke({"question": QUESTION})


def langchain_combine(llm, retriever, options) -> str:
    chain = PrivateCombineDocuments(llm=llm)
    return chain.invoke({"input": QUESTION, "context": retriever})


def langchain_model(llm, retriever, options) -> str:
    return llm.as_langchain().invoke(QUESTION, documents=retriever)


def llama_index_engine(llm, retriever, options) -> str:
    return str(PrivateQueryEngine(llm, retriever).query(QUESTION))


def llama_index_of_the_core(llm, retriever, options) -> str:
    return str(llm.as_query_engine(retriever).query(QUESTION))


DOORS: list[Callable[..., str]] = [
    core,
    command_line,
    langchain_chain,
    langchain_tool,
    langchain_combine,
    langchain_model,
    llama_index_engine,
    llama_index_of_the_core,
]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Corpus]:
    monkeypatch.setenv("DPICL_RAG_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("DPICL_RAG_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setattr(data_folder, "load_embedder", lambda name, device=None: BucketEmbedder())
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", lambda: MODEL)
    made = Corpus.create("notes", tmp_path / "store", embedder=BucketEmbedder())
    made.add(NOTES)
    yield made
    made.close()


@pytest.fixture
def same_coins(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has the coins that come be those that came after its last call."""

    def toss_again() -> None:
        coins = random.Random(7)
        fixed = SimpleNamespace(randbits=coins.getrandbits, randbelow=coins.randrange)
        monkeypatch.setattr(randomness, "secrets", fixed)

    return toss_again


@pytest.mark.one_in(5)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", sorted(RETRIEVERS))
def test_a_retriever_answers_and_costs_the_same_at_every_door(
    name, door, corpus, tmp_path, same_coins
):
    make, options = RETRIEVERS[name]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        # With the defaults: a door with others is another mechanism than the one that was proven.
        llm = PrivateContextLLM(MODEL, ledger=ledger, corpus="notes").for_strings()
        same_coins()
        expected = llm.answer(QUESTION, make(corpus))
        [before] = ledger.status()
        same_coins()
        assert door(llm, make(corpus), options).strip() == expected.text
        [after] = ledger.status()
    assert expected.by == "agreement" or name not in AGREEING
    assert before.spent == pytest.approx(expected.rho, rel=1e-6)
    assert after.spent - before.spent == pytest.approx(expected.rho, rel=1e-6)
    assert after.delta_spent == 2 * before.delta_spent
    assert after.questions == before.questions + 1
    assert after.reserved == 0
