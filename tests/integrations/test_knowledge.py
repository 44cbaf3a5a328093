"""Released answers and public texts through both frameworks."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document as LangChainDocument
from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from langchain_core.runnables import RunnableLambda
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from dpicl_rag import AnswerMemory, Document, Ledger, PrivateContextLLM, PublicDocuments
from dpicl_rag.accounting import Stability
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.retrieval import GivenDocuments
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateRetrievalChain,
)
from langchain_dpicl_rag import PrivateLLM as LangChainLLM
from llama_index_dpicl_rag import PrivateLLM as LlamaIndexLLM
from llama_index_dpicl_rag import PrivateQueryEngine, PrivateSynthesizer
from tests.support.bucket_embedder import BucketEmbedder

SIZE, END = 8, 7
QUESTION = "Which token is it?"
DOCUMENTS = [Document("token 3: d", f"unit-{n}") for n in range(40)]


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """Documents name a token, then the answer ends; the public row does not know."""
    if text != "token 3: d":
        return [0.0] * SIZE
    return [0.0 if token == (END if history else 3) else -40.0 for token in range(SIZE)]


@pytest.fixture
def memory(tmp_path):
    with AnswerMemory(tmp_path / "memory", "mail", embedder=BucketEmbedder()) as memory:
        yield memory


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.set_budget(corpus="mail", rho=100.0)
        yield ledger


@pytest.fixture
def llm(memory, ledger) -> PrivateContextLLM:
    model = SyntheticModel(SIZE, speech, stop_tokens=frozenset({END}))
    settings = {"max_tokens": 4, "agreement": "auto"}  # its tokens make no sentences
    return PrivateContextLLM(model, knowledge=memory, corpus="mail", ledger=ledger, **settings)


def in_langchain(llm):
    answer = LangChainLLM(llm).generate([QUESTION], documents=DOCUMENTS).generations[0][0]
    return answer.text, answer.generation_info


def in_langchain_chat(llm):
    answer = ChatPrivateContext(llm).invoke(QUESTION, documents=DOCUMENTS)
    return answer.content, answer.response_metadata


def in_langchain_stream(llm):
    *_, last = chunks = list(ChatPrivateContext(llm).stream(QUESTION, documents=DOCUMENTS))
    return "".join(chunk.content for chunk in chunks), last.response_metadata


def in_llama_index(llm):
    answer = LlamaIndexLLM(llm).complete(QUESTION, documents=DOCUMENTS)
    return answer.text, answer.additional_kwargs


def in_a_query_engine(llm):
    answer = PrivateQueryEngine(llm, GivenDocuments(DOCUMENTS)).query(QUESTION)
    return answer.response, answer.metadata


WAYS = [
    in_langchain,
    in_langchain_chat,
    in_langchain_stream,
    in_llama_index,
    in_a_query_engine,
]


@pytest.mark.parametrize("ask", WAYS)
def test_the_same_question_comes_from_memory_and_says_so(ask, llm, ledger, memory):
    text, numbers = ask(llm)
    assert (text.strip(), numbers["from_memory"], numbers["epsilon"]) == ("d", False, 8.0)
    spent = ledger.status()
    text, numbers = ask(llm)
    assert (text, numbers["from_memory"], numbers["epsilon"]) == ("d", True, 0.0)
    assert numbers["output_tokens"] == 0
    assert ledger.status() == spent
    assert len(memory.entries()) == 1


async def test_chains_and_streams_answer_from_memory(llm, memory):
    memory.remember(QUESTION, "Token three.")
    chain = PrivateRetrievalChain(GivenDocuments(DOCUMENTS), llm=llm)
    assert chain.invoke(QUESTION) == await chain.ainvoke(QUESTION) == "Token three."
    assert "".join(chain.stream(QUESTION)) == "Token three."
    assert "".join([piece async for piece in chain.astream(QUESTION)]) == "Token three."
    engine = PrivateQueryEngine(llm, GivenDocuments(DOCUMENTS), streaming=True)
    assert "".join(engine.query(QUESTION).response_gen) == "Token three."


def chain_of(llm):
    return PrivateRetrievalChain(GivenDocuments(DOCUMENTS), llm=llm)


async def in_a_chain(llm, **asked):
    yield chain_of(llm).invoke(QUESTION, **asked)
    yield await chain_of(llm).ainvoke(QUESTION, **asked)
    yield "".join(chain_of(llm).stream(QUESTION, **asked))
    yield "".join([piece async for piece in chain_of(llm).astream(QUESTION, **asked)])
    yield chain_of(llm).batch([QUESTION], **asked)[0]


async def in_a_bound_chain(llm, **asked):
    bound = RunnableLambda(lambda question: question) | chain_of(llm).bind(**asked)
    yield bound.invoke(QUESTION)
    yield await bound.ainvoke(QUESTION)
    yield "".join(bound.stream(QUESTION))
    yield "".join([piece async for piece in bound.astream(QUESTION)])


async def in_a_combining_chain(llm, **asked):
    given = {"input": QUESTION, "context": GivenDocuments(DOCUMENTS)}
    yield PrivateCombineDocuments(llm).invoke(given, **asked)


async def in_models_of_langchain(llm, **asked):
    text, chat = LangChainLLM(llm), ChatPrivateContext(llm)
    given = {"documents": DOCUMENTS, **asked}
    yield text.invoke(QUESTION, **given)
    yield await text.ainvoke(QUESTION, **given)
    yield "".join(text.stream(QUESTION, **given))
    yield "".join([piece async for piece in text.astream(QUESTION, **given)])
    yield chat.invoke(QUESTION, **given).content
    yield (await chat.bind(**given).ainvoke(QUESTION)).content
    yield "".join(chunk.content for chunk in chat.stream(QUESTION, **given))
    yield "".join([chunk.content async for chunk in chat.astream(QUESTION, **given)])


async def in_engines(llm, **asked):
    documents = GivenDocuments(DOCUMENTS)
    yield llm.as_query_engine(documents, **asked).query(QUESTION).response
    yield (await llm.as_query_engine(documents, **asked).aquery(QUESTION)).response
    streaming = llm.as_query_engine(documents, streaming=True, **asked)
    yield "".join(streaming.query(QUESTION).response_gen)
    found = await streaming.aquery(QUESTION)
    yield "".join([piece async for piece in found.async_response_gen()])


async def in_synthesizers(llm, **asked):
    nodes = [NodeWithScore(node=TextNode(text="token 3: d", id_=f"n{n}")) for n in range(40)]
    stability = Stability(added=1, changed=0)
    given = {"unit_field": "document", "stability": stability, **asked}
    whole = PrivateSynthesizer(llm, **given)
    pieces = PrivateSynthesizer(llm, streaming=True, **given)
    texts, units = ["token 3: d"] * 40, [f"n{n}" for n in range(40)]
    yield whole.synthesize(QUESTION, nodes).response
    yield (await whole.asynthesize(QUESTION, nodes)).response
    yield "".join(pieces.synthesize(QUESTION, nodes).response_gen)
    yield whole.get_response(QUESTION, texts, units=units)
    yield await whole.aget_response(QUESTION, texts, units=units)
    yield "".join(pieces.get_response(QUESTION, texts, units=units))
    found = await pieces.aget_response(QUESTION, texts, units=units)
    yield "".join([piece async for piece in found])


async def in_models_of_llama_index(llm, **asked):
    model, messages = LlamaIndexLLM(llm), [ChatMessage(QUESTION)]
    given = {"documents": DOCUMENTS, **asked}
    yield model.complete(QUESTION, **given).text
    yield (await model.acomplete(QUESTION, **given)).text
    yield list(model.stream_complete(QUESTION, **given))[-1].text
    yield [one async for one in await model.astream_complete(QUESTION, **given)][-1].text
    yield model.chat(messages, **given).message.content
    yield (await model.achat(messages, **given)).message.content
    yield list(model.stream_chat(messages, **given))[-1].message.content
    yield [one async for one in await model.astream_chat(messages, **given)][-1].message.content


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "ask",
    [
        in_a_chain,
        in_a_bound_chain,
        in_a_combining_chain,
        in_models_of_langchain,
        in_engines,
        in_synthesizers,
        in_models_of_llama_index,
    ],
)
async def test_what_is_remembered_is_asked_again_on_request_alone(ask, llm, ledger, memory):
    memory.remember(QUESTION, "Token three.")
    (entry,) = memory.entries()
    memory.edit(entry.id, "Token three.")  # so that no drawn answer takes its place
    before = ledger.status()
    assert {text async for text in ask(llm)} == {"Token three."}
    assert ledger.status() == before
    answers = [text async for text in ask(llm, fresh=True)]
    assert {text.strip() for text in answers} == {"d"}
    assert ledger.status()[0].questions == before[0].questions + len(answers)


def test_a_system_message_is_part_of_the_question(llm):
    chat = ChatPrivateContext(llm)
    said = [("system", "Answer in verse."), ("human", QUESTION)]
    assert not chat.invoke(QUESTION, documents=DOCUMENTS).response_metadata["from_memory"]
    assert not chat.invoke(said, documents=DOCUMENTS).response_metadata["from_memory"]
    assert chat.invoke(said, documents=DOCUMENTS).response_metadata["from_memory"]


class Handbook(LangChainRetriever):
    """A retriever of LangChain over public text."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [LangChainDocument(page_content=f"on {query}"), LangChainDocument(page_content="b")]


class Pages(LlamaIndexRetriever):
    """A retriever of LlamaIndex over public text."""

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(text=f"on {query_bundle.query_str}"), score=1.0)]


def test_retrievers_of_both_are_public_knowledge(memory, tmp_path):
    assert PublicDocuments(Handbook()).recall("tokens") == ["on tokens", "b"]
    assert PublicDocuments(Pages()).recall("tokens") == ["on tokens"]
    model = SyntheticModel(SIZE, speech, stop_tokens=frozenset({END}))
    llm = PrivateContextLLM(
        model, knowledge=[memory, Handbook(), Pages()], corpus="mail", max_tokens=4
    )
    assert llm.answer(QUESTION, DOCUMENTS).recalled == 3
