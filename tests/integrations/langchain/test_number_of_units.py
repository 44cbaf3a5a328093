"""The k of a LangChain retriever: brought where it was said, and told where it is too few."""

from __future__ import annotations

import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from dpicl_rag import FewUnitsWarning
from dpicl_rag.retrieval import UNITS, NoisyThreshold
from langchain_dpicl_rag import PrivateRetrievalChain
from langchain_dpicl_rag.vector_stores import private_retriever
from tests.integrations.langchain.support import QUESTION, WordEmbeddings, make_llm


@pytest.fixture
def memory():
    metadata = [{"patient": "ann"}, {"patient": "bob"}]
    return InMemoryVectorStore.from_texts(["Ann is ill.", "Bob is."], WordEmbeddings(), metadata)


def test_a_k_that_was_said_is_told_to_be_too_few(tiny_model, memory):
    retriever = memory.as_retriever(search_kwargs={"k": 16})
    chain = PrivateRetrievalChain(retriever, unit_field="patient", llm=make_llm(tiny_model))
    with pytest.warns(FewUnitsWarning, match="at most about 16 units .* leave top_k"):
        chain.invoke(QUESTION)


@pytest.mark.filterwarnings("error:at most about")
def test_where_none_was_said_there_is_none(tiny_model, memory):
    """LangChain's own 4 is nobody's choice, and no answer follows four units."""
    retriever = private_retriever(memory.as_retriever(), unit_field="patient")
    assert retriever.bar == NoisyThreshold(UNITS)
    PrivateRetrievalChain(retriever, llm=make_llm(tiny_model)).invoke(QUESTION)
    filtered = memory.as_retriever(search_kwargs={"filter": {"patient": "bob"}})
    assert private_retriever(filtered, unit_field="patient").where == {"patient": "bob"}
