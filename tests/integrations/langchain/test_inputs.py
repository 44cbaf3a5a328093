"""What chains and models are asked: turns before the question count, nothing is dropped."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnablePassthrough, RunnablePick
from langchain_core.vectorstores import InMemoryVectorStore

from dpicl_rag import ConfigurationError
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateRetrievalChain,
)
from langchain_dpicl_rag.conversations import read_input
from tests.integrations.langchain.support import QUESTION, WordEmbeddings, make_llm
from tests.integrations.leak_probe import SpyModel

TEXTS = ["Ann has zingpocket disease.", "Bob has a cold."]
TURNS = [HumanMessage("Who is ill?"), AIMessage("Ann is.")]
WORDS = "Human: Who is ill?\nAI: Ann is."
FOLLOW_UP = "And on Fridays?"
WHOLE = "Who is ill on Fridays?"


class Asked(WordEmbeddings):
    """Remembers what documents were searched for."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        if text != "length":  # of a vector: the store is asked that once
            self.questions.append(text)
        return super().embed_query(text)


@pytest.fixture
def llm(tiny_model):
    return make_llm(tiny_model)


@pytest.fixture
def embeddings():
    return Asked()


@pytest.fixture
def memory(embeddings):
    metadata = [{"patient": "ann"}, {"patient": "bob"}]
    made = InMemoryVectorStore.from_texts(TEXTS, embeddings, metadata)
    embeddings.questions.clear()
    return made


@pytest.fixture
def chain(llm, memory):
    return PrivateRetrievalChain(memory, unit_field="patient", threshold=-1, llm=llm)


class TestHistory:
    @pytest.mark.parametrize(
        "history", [TURNS, [("human", "Who is ill?"), ("ai", "Ann is.")], WORDS]
    )
    def test_of_a_chain_makes_the_question_whole(self, chain, embeddings, history):
        chain.invoke({"input": FOLLOW_UP, "chat_history": history})
        assert embeddings.questions == [WHOLE]

    def test_of_a_graph_is_its_messages(self, chain, embeddings):
        chain.invoke({"messages": [*TURNS, ("human", FOLLOW_UP)]})
        assert embeddings.questions == [WHOLE]

    def test_of_a_graph_with_more_keys_is_picked(self, chain, embeddings):
        state = {"messages": [*TURNS, ("human", FOLLOW_UP)], "owner": "ann"}
        with pytest.raises(ConfigurationError, match="'owner' in the input would be") as told:
            chain.invoke(state)
        assert "RunnablePick(['messages']) | chain" in str(told.value)
        (RunnablePick(["messages"]) | chain).invoke(state)
        assert embeddings.questions == [WHOLE]

    async def test_in_every_way_to_ask(self, chain, embeddings):
        question = {"input": FOLLOW_UP, "chat_history": TURNS}
        await chain.ainvoke(question)
        list(chain.stream(question))
        assert [piece async for piece in chain.astream(question)]
        chain.batch([question])
        assert embeddings.questions == [WHOLE] * 4

    def test_is_told_beside_the_answer(self, chain):
        told = chain.model_copy(update={"numbers": True})
        assert told.invoke({"input": FOLLOW_UP, "chat_history": TURNS})["question"] == WHOLE
        *_, last = told.stream({"input": FOLLOW_UP, "chat_history": TURNS})
        assert last["question"] == WHOLE

    def test_of_combined_documents(self, llm):
        combine = PrivateCombineDocuments(llm, unit_field="document", numbers=True)
        context = [Document(text) for text in TEXTS]
        found = combine.invoke({"input": FOLLOW_UP, "context": context, "chat_history": TURNS})
        assert found["question"] == WHOLE

    def test_of_a_chat_makes_the_question_whole(self, llm, chain, embeddings):
        placed = MessagesPlaceholder("chat_history")
        prompt = ChatPromptTemplate.from_messages([("system", "Be."), placed, ("human", "{q}")])
        app = prompt | ChatPrivateContext(llm).bind(documents=chain.retriever)
        said = app.invoke({"q": FOLLOW_UP, "chat_history": TURNS})
        assert said.response_metadata["question"] == WHOLE
        list(app.stream({"q": FOLLOW_UP, "chat_history": TURNS}))
        assert embeddings.questions == [WHOLE] * 2

    def test_kept_by_langchain(self, chain, embeddings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated, and what apps have
            from langchain_core.chat_history import InMemoryChatMessageHistory
            from langchain_core.runnables.history import RunnableWithMessageHistory

            kept = InMemoryChatMessageHistory()
            app = RunnableWithMessageHistory(
                chain,
                lambda: kept,
                input_messages_key="input",
                history_messages_key="chat_history",
                history_factory_config=[],
            )
            app.invoke({"input": "Who is ill?"})
            app.invoke({"input": FOLLOW_UP})
        assert embeddings.questions == ["Who is ill?", WHOLE]

    def test_leaves_a_question_that_says_it_all(self, chain, embeddings):
        chain.invoke({"input": QUESTION, "chat_history": TURNS})
        assert embeddings.questions == [QUESTION]

    def test_a_system_message_is_the_instruction(self):
        found = read_input(
            {"input": QUESTION, "chat_history": [SystemMessage("Be."), *TURNS]}, "input"
        )
        said = (("User", "Who is ill?"), ("Assistant", "Ann is."))
        assert (found.question, found.fields) == (QUESTION, {"turns": said, "system": "Be."})

    @pytest.mark.parametrize("history", [None, [], ""])
    def test_may_be_empty(self, chain, embeddings, history):
        chain.invoke({"input": FOLLOW_UP, "chat_history": history})
        assert embeddings.questions == [FOLLOW_UP]

    def test_documents_in_it_are_refused_unseen(self):
        block = [{"type": "text-plain", "text": TEXTS[0]}]
        for history in ([HumanMessage(block)], [("zing", TEXTS[0])], [7, TEXTS[0]]):
            with pytest.raises(ConfigurationError, match="chat_history") as error:
                read_input({"input": QUESTION, "chat_history": history}, "input")
            assert "Ann" not in str(error.value)


def test_other_keys_may_pass_by(chain):
    picked = RunnablePick(["input", "chat_history"]) | chain
    found = RunnablePassthrough.assign(answer=picked).invoke({"input": QUESTION, "user": "ann"})
    assert found.keys() == {"input", "user", "answer"}


def test_the_tool_of_a_chain_serves_an_agent(tiny_model, memory):
    from langchain_core.language_models import GenericFakeChatModel

    class Calling(GenericFakeChatModel):
        def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
            return self

    llm = make_llm(SpyModel(tiny_model))
    tool = PrivateRetrievalChain(memory, unit_field="patient", threshold=-1, llm=llm).as_tool(
        name="notes", description="Notes."
    )
    call = {"name": "notes", "args": {"question": QUESTION}, "id": "1"}
    says = [AIMessage("", tool_calls=[call]), AIMessage("Done.")]
    agent = create_agent(Calling(messages=iter(says)), tools=[tool])
    *_, told, last = agent.invoke({"messages": [HumanMessage("Ask the notes.")]})["messages"]
    assert isinstance(told.content, str)
    assert last.content == "Done."
    assert any(TEXTS[0] in prompt for prompt in llm.model.prompts)
