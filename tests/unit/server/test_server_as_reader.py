"""A real chat server reads: this library's own, by its public model."""

import pytest

from dpicl_rag import Document, PrivateContextLLM
from tests.support.paced_model import PacedModel

SAID = "abcdefgh"
DOCUMENTS = [Document(f"day {n}", f"u{n}") for n in range(24)]


@pytest.fixture
def running(serve, keys):
    found = serve(keys, model=PacedModel(open=True))
    found.key = keys.add("ann")
    return found


@pytest.fixture
def reader(running, request, monkeypatch):
    """The server by its address, as LangChain's and as LlamaIndex's model."""
    url = f"{running.url}/v1"
    if request.param == "address":
        monkeypatch.setenv("DPICL_RAG_READER_KEY", running.key)
        return f"chat+{url}#public"
    if request.param == "langchain":
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(base_url=url, api_key=running.key, model="public")
    from llama_index.llms.openai_like import OpenAILike

    return OpenAILike(api_base=url, api_key=running.key, model="public", is_chat_model=True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("reader", ["address", "langchain", "llama_index"], indirect=True)
def test_notes_of_a_chat_server_are_an_answer_without_a_model(reader, monkeypatch):
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", None)
    llm = PrivateContextLLM(reader=reader, epsilon=8.0, agreement="only")
    answer = llm.answer("What is it?", DOCUMENTS)
    assert answer.text.startswith(SAID.capitalize())
    assert answer.by == "agreement"
