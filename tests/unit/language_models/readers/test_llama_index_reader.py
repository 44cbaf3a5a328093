"""Models of LlamaIndex read; no callback and no handler of a dispatcher learns what."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import llama_index.core
import pytest
from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.rate_limiter import BaseRateLimiter
from llama_index.llms.openai_like import OpenAILike

from dpicl_rag.errors import ConfigurationError, EngineUnavailableError, ModelError
from dpicl_rag.language_models.readers import framework_readers as room
from dpicl_rag.language_models.readers import quiet_calls
from dpicl_rag.language_models.readers.as_reader import as_reader
from dpicl_rag.language_models.readers.concurrent_reader import PUBLIC_PROMPT
from dpicl_rag.language_models.readers.framework_readers import TOKENS, llama_index_reader
from dpicl_rag.language_models.readers.reply_cache import CHARACTERS
from tests.integrations.leak_probe import SECRET, LeakProbe
from tests.integrations.llama_index.support import Callbacks, instrumented
from tests.support.fake_chat import FakeChat

PROMPTS = [f"Patient {number} has {SECRET}." for number in range(5)]
REPLIES = [f"re {prompt}" for prompt in PROMPTS]


@pytest.fixture(autouse=True)
def no_global_callbacks() -> Iterator[None]:
    before = Settings._callback_manager
    yield
    Settings._callback_manager = before


class Custom(CustomLLM):
    """Says its prompt again."""

    say: Callable[[str], Any] = lambda prompt: f"re {prompt}"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.say(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield self.complete(prompt)


class Outer(Custom):
    """A model that asks another, which has callbacks of its own."""

    inner: Any

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return self.inner.complete(prompt)


class Loud(CallbackManager):
    """A manager that tells by itself."""

    def on_event_start(self, *given: Any, **options: Any) -> str:
        self.handlers[0].on_event_start(*given, **options)
        return super().on_event_start(*given, **options)


MODELS: dict[str, Callable[[Any], Any]] = {
    "mock": lambda callbacks: MockLLM(
        callback_manager=CallbackManager([callbacks]), completion_to_prompt=lambda p: f"re {p}"
    ),
    "custom": lambda callbacks: Custom(callback_manager=CallbackManager([callbacks])),
    "globals": lambda callbacks: Custom(),
    "outer": lambda callbacks: Outer(
        inner=Custom(callback_manager=CallbackManager([callbacks])),
        callback_manager=CallbackManager([callbacks]),
    ),
    "a manager of its own": lambda callbacks: Custom(callback_manager=Loud([callbacks])),
}


def told_by(ask: Callable[[Callbacks], list[str]]) -> tuple[list[str], set[str], list[str]]:
    """What is replied, the places where the secret shows, and all places that told anything."""
    probe = LeakProbe()
    with instrumented(probe.see) as callbacks, probe.listening():
        Settings.callback_manager = CallbackManager([callbacks])
        replies = ask(callbacks)
    return replies, set(probe.findings), probe.places


def echoed(name: str) -> list[str]:
    # The mock writes as many words as its limit has tokens.
    return [" ".join(["text"] * TOKENS)[:CHARACTERS]] * len(PROMPTS) if name == "mock" else REPLIES


@pytest.mark.parametrize("name", MODELS)
def test_nobody_is_told_of_a_call(name):
    def ask(callbacks):
        model = MODELS[name](callbacks)
        probe.places.clear()  # what the making of a model tells is public
        found = llama_index_reader(model)
        assert SECRET not in repr(found) + found.fingerprint
        return found.replies(PROMPTS)

    probe = LeakProbe()
    with instrumented(probe.see) as callbacks, probe.listening():
        Settings.callback_manager = CallbackManager([callbacks])
        replies = ask(callbacks)
    assert replies == echoed(name)
    assert probe.places == []


def test_nobody_is_told_of_a_function_that_asks_a_model():
    def ask(callbacks):
        model = MODELS["custom"](callbacks)
        return as_reader(lambda prompt: model.complete(prompt).text).replies(PROMPTS)

    replies, findings, _ = told_by(ask)
    assert replies == REPLIES
    assert findings == set()


def test_a_global_handler_is_held_off(monkeypatch):
    def ask(callbacks):
        monkeypatch.setattr(llama_index.core, "global_handler", callbacks)
        return llama_index_reader(Custom()).replies(PROMPTS)

    replies, findings, _ = told_by(ask)
    assert replies == REPLIES
    assert findings == set()


@pytest.mark.parametrize("name", MODELS)
def test_what_is_not_held_off_is_found(monkeypatch, name):
    monkeypatch.setattr(quiet_calls, "_llama_index_is_quiet", lambda: False)
    _, findings, _ = told_by(
        lambda callbacks: llama_index_reader(MODELS[name](callbacks)).replies(PROMPTS)
    )
    assert findings >= {"event LLMCompletionStartEvent", "callback llm"}
    assert any(place.startswith("span ") for place in findings)


def test_everybody_else_is_told_as_ever():
    llama_index_reader(Custom()).replies(PROMPTS)
    replies, findings, _ = told_by(
        lambda callbacks: [MODELS["custom"](callbacks).complete(PROMPTS[0]).text]
    )
    assert replies == REPLIES[:1]
    assert findings >= {
        "event LLMCompletionStartEvent",
        "event LLMCompletionEndEvent",
        "callback llm",
        "end of callback llm",
        "span Custom.complete",
        "end of span Custom.complete",
    }


def test_other_threads_are_told_while_a_call_runs():
    began, told = threading.Event(), threading.Event()

    def say(prompt):
        if prompt != PUBLIC_PROMPT:
            began.set()
            told.wait(10)
        return prompt

    def ask(callbacks):
        def outside():
            began.wait(10)
            Custom(callback_manager=CallbackManager([callbacks])).complete("Anyone?")
            told.set()

        thread = threading.Thread(target=outside)
        thread.start()
        replies = llama_index_reader(Custom(say=say)).replies(PROMPTS[:1])
        thread.join()
        return replies

    replies, findings, places = told_by(ask)
    assert replies == PROMPTS[:1]
    assert findings == set()
    assert {"event LLMCompletionStartEvent", "callback llm"} <= set(places)


def test_a_prompt_that_makes_a_model_fail_is_no_reply_and_told_to_nobody():
    def say(prompt):
        if prompt == PROMPTS[2]:
            raise ValueError(prompt)
        return prompt

    replies, findings, _ = told_by(lambda _: llama_index_reader(Custom(say=say)).replies(PROMPTS))
    assert replies == [prompt if prompt != PROMPTS[2] else "" for prompt in PROMPTS]
    assert findings == set()


def test_a_model_that_gives_no_text_is_seen_first():
    with pytest.raises(ModelError, match="public prompt"):
        llama_index_reader(Custom(say=lambda prompt: None)).replies(PROMPTS)


def test_the_model_is_not_changed():
    manager = CallbackManager([])
    model = Custom(callback_manager=manager)
    llama_index_reader(model).replies(PROMPTS)
    assert model.callback_manager is manager


def test_a_rate_limiter_is_asked_for_every_call():
    class Limiter(BaseRateLimiter):
        def acquire(self, num_tokens: int = 0) -> None:
            asked.append(num_tokens)

        async def async_acquire(self, num_tokens: int = 0) -> None:
            raise AssertionError

    asked: list[int] = []
    llama_index_reader(Custom(rate_limiter=Limiter())).replies(PROMPTS)
    assert len(asked) == len(PROMPTS) + 1


@pytest.mark.parametrize("given", [None, "model", str.upper, MockLLM])
def test_what_is_no_model_is_refused(given):
    with pytest.raises(ConfigurationError, match="LLM of LlamaIndex"):
        llama_index_reader(given)


def test_llama_index_is_loaded_for_nobody_who_has_not(monkeypatch):
    monkeypatch.delitem(sys.modules, "llama_index.core.llms")
    assert not room.is_llama_index(MockLLM())


# A model that people have, over HTTP.


@pytest.fixture
def fake() -> Iterator[FakeChat]:
    with FakeChat(lambda prompt: f"re {prompt}") as fake:
        yield fake


def hosted(fake: FakeChat, **options: Any) -> OpenAILike:
    given = {"model": "tiny", "api_base": fake.url, "api_key": "sesame", "is_chat_model": True}
    return OpenAILike(**{**given, "max_retries": 0, **options})


def test_open_ai_like_reads(fake):
    def ask(callbacks):
        manager = CallbackManager([callbacks])
        return llama_index_reader(hosted(fake, callback_manager=manager)).replies(PROMPTS)

    replies, findings, _ = told_by(ask)
    assert replies == REPLIES
    assert findings == set()
    assert fake.prompts[0] == PUBLIC_PROMPT


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("status", [429, 500, "reset"])
def test_trouble_of_open_ai_like_passes_or_is_that_of_one_prompt_or_of_all(fake, status):
    failing = {PROMPTS[1]: 1}

    def say(prompt):
        failing[prompt] = failing.get(prompt, 0) - 1
        return status if failing[prompt] >= 0 else f"re {prompt}"

    fake.say = say
    found = llama_index_reader(hosted(fake), backoff=0.001)
    assert found.replies(PROMPTS) == REPLIES
    failing[PROMPTS[1]] = 10**9
    own = [REPLIES[0], "", *REPLIES[2:]]
    assert llama_index_reader(hosted(fake), backoff=0.001).replies(PROMPTS) == own
    failing[PUBLIC_PROMPT] = 10**9
    with pytest.raises(EngineUnavailableError) as caught:
        found.replies(PROMPTS)
    assert caught.value.__context__ is None


def test_refusals_of_open_ai_like(fake):
    fake.say = lambda prompt: 401
    with pytest.raises(ModelError, match="check the key"):
        llama_index_reader(hosted(fake)).replies(PROMPTS)
    fake.say = lambda prompt: 400 if prompt == PROMPTS[0] else f"re {prompt}"
    assert llama_index_reader(hosted(fake)).replies(PROMPTS) == ["", *REPLIES[1:]]


@pytest.mark.parametrize(("given", "sent"), [({}, TOKENS), ({"max_tokens": 40}, 40)])
def test_a_model_without_a_limit_of_tokens_has_one(fake, given, sent):
    model = hosted(fake, **given)
    llama_index_reader(model).replies(PROMPTS[:1])
    assert {body["max_tokens"] for body in fake.bodies} == {sent}
    assert model.max_tokens == given.get("max_tokens")


def test_fingerprints_name_a_model_by_its_settings(fake):
    first = llama_index_reader(hosted(fake)).fingerprint
    assert first.startswith("llama-index OpenAILike ")
    assert llama_index_reader(hosted(fake)).fingerprint == first
    assert llama_index_reader(hosted(fake, api_key="other")).fingerprint == first
    for changed in ({"model": "b"}, {"api_base": "http://b/v1"}, {"temperature": 0.5}):
        assert llama_index_reader(hosted(fake, **changed)).fingerprint != first


def test_what_does_not_tell_its_settings_has_a_name_of_its_own():
    model = Custom()
    names = {llama_index_reader(model).fingerprint for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("llama-index Custom ") for name in names)
