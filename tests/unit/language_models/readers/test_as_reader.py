"""Whatever reads prompts is taken as a reader."""

from __future__ import annotations

import asyncio
from functools import partial

import httpx
import pytest
from langchain_core.language_models import FakeListChatModel
from llama_index.core.llms import MockLLM

from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.language_models.readers import as_reader as room
from dpicl_rag.language_models.readers.as_reader import as_reader
from dpicl_rag.language_models.readers.concurrent_reader import ConcurrentReader
from tests.support.fake_chat import FakeChat

PROMPTS = [f"prompt {number}" for number in range(9)]
UPPER = [prompt.upper() for prompt in PROMPTS]


class Own:
    """A reader that somebody wrote."""

    fingerprint = "own"

    def replies(self, prompts, on_progress=None):
        return list(prompts)


class Call:
    """An object that is called."""

    def __call__(self, prompt):
        return prompt.upper()


class Later:
    """An object that is called and awaited."""

    async def __call__(self, prompt):
        await asyncio.sleep(0)
        return prompt.upper()


async def later(prompt, suffix=""):
    await asyncio.sleep(0)
    return prompt.upper() + suffix


def test_a_reader_is_itself():
    for given in (Own(), ConcurrentReader(str.upper, "a")):
        assert as_reader(given) is given


def test_an_address():
    with FakeChat(str.upper) as fake:
        found = as_reader(fake.address())
        assert found.fingerprint == fake.address()
        assert found.replies(PROMPTS) == UPPER


@pytest.mark.parametrize(
    "given",
    [str.upper, lambda prompt: prompt.upper(), Call(), Call().__call__, later, Later()],
    ids=["method", "lambda", "object", "bound method", "async function", "async object"],
)
def test_functions(given):
    assert as_reader(given).replies(PROMPTS) == UPPER


def test_partial_and_wrapped_functions():
    assert as_reader(partial(later, suffix="!")).replies(["a"]) == ["A!"]
    assert as_reader(lambda prompt: later(prompt)).replies(["a"]) == ["A"]


def test_models_of_frameworks():
    assert as_reader(FakeListChatModel(responses=["a"])).replies(PROMPTS) == ["a"] * 9
    assert as_reader(MockLLM(max_tokens=2)).replies(PROMPTS) == ["text text"] * 9


def test_an_async_client_keeps_its_connections_from_call_to_call():
    with FakeChat(str.upper) as fake:
        client = httpx.AsyncClient(trust_env=False)

        async def ask(prompt):
            message = {"role": "user", "content": prompt}
            body = {"model": "tiny", "messages": [message]}
            response = await client.post(f"{fake.url}/chat/completions", json=body)
            return response.json()["choices"][0]["message"]["content"]

        found = as_reader(ask)
        for _ in range(3):
            assert found.replies(PROMPTS) == UPPER

        async def close():
            await client.aclose()

        room.run_in_loop(close())


async def test_from_within_an_event_loop():
    assert await asyncio.to_thread(as_reader(later).replies, PROMPTS) == UPPER
    assert as_reader(later).replies(PROMPTS) == UPPER  # even where it blocks


def test_an_async_function_that_fails():
    async def fails(prompt):
        if prompt == PROMPTS[2]:
            raise ValueError(prompt)
        return prompt

    expected = [prompt if prompt != PROMPTS[2] else "" for prompt in PROMPTS]
    assert as_reader(fails).replies(PROMPTS) == expected


@pytest.mark.usefixtures("swift")
def test_an_async_function_that_hangs_is_ended(monkeypatch):
    ended = []

    async def hangs(prompt):
        if prompt in PROMPTS:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append(prompt)
                raise
        return prompt

    monkeypatch.setattr(room, "DEADLINE", 0.1)
    found = as_reader(hangs)
    found._backoff = 0.001
    assert found.replies(PROMPTS[:2]) == ["", ""]
    assert set(ended) == set(PROMPTS[:2])


def test_a_function_has_a_name_of_its_own_unless_it_gives_one():
    names = {as_reader(given).fingerprint for given in (str.upper, str.upper, Call(), later)}
    assert len(names) == 4
    assert all(name.startswith("function ") for name in names)

    def named(prompt):
        return prompt

    named.fingerprint = "my model 2"
    assert as_reader(named).fingerprint == "my model 2"


@pytest.mark.parametrize("given", [None, 7, b"chat+http://a", [str.upper], Own, MockLLM, Call])
def test_anything_else_is_refused_in_one_line(given):
    with pytest.raises(ConfigurationError, match="a reader is an address such as") as caught:
        as_reader(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", ["llama3.2", "openai+http://127.0.0.1:1/v1#m", ""])
def test_a_text_that_is_no_address_is_refused(given):
    with pytest.raises(ConfigurationError, match="looks like chat"):
        as_reader(given)


def test_a_function_of_something_else_is_seen_first():
    with pytest.raises(ModelError, match=r"public prompt \(int\)"):
        as_reader(len).replies(PROMPTS)
    with pytest.raises(ModelError, match=r"public prompt \(TypeError\)"):
        as_reader(lambda: "OK").replies(PROMPTS)
