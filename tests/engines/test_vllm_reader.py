"""A real vLLM as a chat server: what its replies agree on is an answer, and no model is loaded.

``make test-engines`` builds vLLM's own environment and runs this; else ``DPICL_RAG_VLLM`` names the
Python that has it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from llama_index.llms.openai_like import OpenAILike

from dpicl_rag import Document, PrivateContextLLM
from dpicl_rag.language_models.readers.as_reader import as_reader, independent
from dpicl_rag.language_models.readers.concurrent_reader import ConcurrentReader
from tests.support.vllm_server import NEEDS_VLLM, VLLM

pytestmark = NEEDS_VLLM

QUESTION = "When does the shuttle leave?"
LINE = "The shuttle leaves at 6:40."
DOCUMENTS = [Document(f"{LINE} Room {number} has a key.", f"u{number}") for number in range(32)]


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLM]:
    with VLLM(tmp_path_factory.mktemp("vllm"), "--dtype", "float32") as server:
        yield server


def address(server: VLLM) -> str:
    return f"chat+{server.url}#{server.name}"


def langchain(server: VLLM) -> ChatOpenAI:
    given = {"model": server.name, "api_key": "none", "temperature": 0, "max_tokens": 64}
    return ChatOpenAI(base_url=server.url, **given)


def llama_index(server: VLLM) -> OpenAILike:
    given = {"model": server.name, "api_key": "none", "temperature": 0, "max_tokens": 64}
    return OpenAILike(api_base=server.url, is_chat_model=True, **given)


@pytest.mark.parametrize("made", [address, langchain, llama_index], ids=lambda made: made.__name__)
def test_its_notes_agree_on_an_answer(
    vllm: VLLM, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    once = ConcurrentReader._once

    def counted(self: ConcurrentReader, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        return once(self, *given)

    monkeypatch.setattr(ConcurrentReader, "_once", counted)
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", None)
    llm = PrivateContextLLM(reader=made(vllm), epsilon=8.0, agreement="only")
    start = time.monotonic()
    answer = llm.answer(QUESTION, DOCUMENTS)
    taken = time.monotonic() - start
    print(  # noqa: T201 - the suite prints its figures
        f"{made.__name__}: {answer.text!r}, {calls} calls, {taken / calls:.2f} s a call"
    )
    assert "6:40" in answer.text
    assert answer.by == "agreement"
    assert calls == len(DOCUMENTS) + 1


def test_its_replies_in_float32_are_their_own(vllm: VLLM) -> None:
    assert independent(as_reader(address(vllm)))


def test_an_address_needs_no_name_of_its_only_model(vllm: VLLM) -> None:
    assert as_reader(f"chat+{vllm.url}").fingerprint == address(vllm)
