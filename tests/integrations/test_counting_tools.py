"""Counts as tools of agents: what they say, what they cost, and what nobody learns."""

import asyncio

import pytest

from dpicl_rag import Document, Ledger, PrivateContextLLM
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.retrieval import GivenDocuments
from langchain_dpicl_rag import PrivateRetrievalChain
from langchain_dpicl_rag import counting_tools as langchain_tools
from llama_index_dpicl_rag import counting_tools as llama_index_tools
from tests.support.bucket_embedder import BucketEmbedder

SECRET = "zanzibar-4471"
DOCUMENTS = [Document(f"a refund, please {SECRET} {n}", f"{SECRET} {n}") for n in range(20)]
COUNT, TALLY, SURVEY = (f"{what}_private_documents" for what in ("count", "tally", "survey"))


class OfLangChain:
    """Tools by name, called as an agent calls them."""

    def __init__(self, llm):
        self.tools = {tool.name: tool for tool in langchain_tools(llm, DOCUMENTS)}

    def call(self, name, **given):
        return self.tools[name].invoke(given)

    def acall(self, name, **given):
        return asyncio.run(self.tools[name].ainvoke(given))

    def description(self, name):
        return self.tools[name].description

    def arguments(self, name):
        return set(self.tools[name].args)


class OfLlamaIndex:
    """The same of LlamaIndex."""

    def __init__(self, llm):
        self.tools = {tool.metadata.name: tool for tool in llama_index_tools(llm, DOCUMENTS)}

    def call(self, name, **given):
        return self.tools[name].call(**given).content

    def acall(self, name, **given):
        return asyncio.run(self.tools[name].acall(**given)).content

    def description(self, name):
        return self.tools[name].metadata.description

    def arguments(self, name):
        return set(self.tools[name].metadata.get_parameters_dict()["properties"])


KINDS = pytest.mark.parametrize("kind", [OfLangChain, OfLlamaIndex])


@pytest.fixture(autouse=True)
def embedder(monkeypatch):
    monkeypatch.setattr("dpicl_rag.surveys.surveying.SentenceTransformerEmbedder", BucketEmbedder)


@KINDS
def test_each_counts_and_says_so_in_words(tiny_model, kind):
    tools = kind(PrivateContextLLM(tiny_model))
    assert "reads 90 in 100" in tools.call(COUNT, question="a refund?")
    said = tools.acall(TALLY, question="what?", labels=["refund", "praise"])
    assert said.index("; ") > min(said.index("“refund”"), said.index("“praise”"))
    assert "gives 90 in 100 the label that fits" in said
    assert "were not seen" in tools.call(SURVEY)
    assert tools.acall(SURVEY, question="what of it?")


@KINDS
def test_an_agent_can_tell_numbers_from_facts(tiny_model, kind):
    tools = kind(PrivateContextLLM(tiny_model))
    assert tools.arguments(COUNT) == tools.arguments(SURVEY) == {"question"}
    assert tools.arguments(TALLY) == {"question", "labels"}
    for name in (COUNT, TALLY, SURVEY):
        assert "Not for facts." in tools.description(name)


@KINDS
def test_what_is_wrong_is_said_to_the_agent(tiny_model, kind, tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=1.5 * epsilon_to_rho(8.0, 1e-5))
        tools = kind(PrivateContextLLM(tiny_model, ledger=ledger, accounting="fixed"))
        assert "at least two labels" in tools.call(TALLY, question="what?", labels=["one"])
        assert "reads 90 in 100" in tools.call(COUNT, question="a refund?")
        for call in (tools.call, tools.acall):
            assert "budget" in call(COUNT, question="a refund?")


@KINDS
def test_nothing_private_is_shown(tiny_model, kind):
    tools = kind(PrivateContextLLM(tiny_model))
    tools.call(COUNT, question="a refund?")
    shown = [repr(tool) + str(tool) for tool in tools.tools.values()]
    assert not any(SECRET in text for text in shown)


def test_what_is_to_be_counted_is_counted_at_the_doors_of_facts_too(tiny_model):
    llm = PrivateContextLLM(tiny_model)
    asked, cut = "How many people want a refund?", GivenDocuments(DOCUMENTS)
    message = llm.as_langchain().invoke(asked, documents=DOCUMENTS)
    chain = PrivateRetrievalChain(cut, llm=llm, numbers=True)
    for numbers in (chain.invoke(asked), llm.as_query_engine(cut).query(asked).metadata):
        assert numbers["kind"] == "count"
        assert numbers["numbers"]["yes"]["units"] >= 0
    assert "the model reads 90 in 100 that say yes right" in message
