"""Models and chains of LangChain read; no callback, tracer, hook or cache learns what."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import langsmith
import openai
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import CallbackManager
from langchain_core.language_models import BaseChatModel, BaseLLM, FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import RunnableBranch, RunnableLambda, RunnableParallel
from langchain_core.tracers.context import register_configure_hook
from langchain_openai import ChatOpenAI, OpenAI
from langsmith.utils import get_env_var

from dpicl_rag.errors import ConfigurationError, EngineUnavailableError, ModelError
from dpicl_rag.language_models.readers import framework_readers as room
from dpicl_rag.language_models.readers import quiet_calls
from dpicl_rag.language_models.readers.as_reader import as_reader
from dpicl_rag.language_models.readers.concurrent_reader import PUBLIC_PROMPT
from dpicl_rag.language_models.readers.framework_readers import TOKENS, langchain_reader, limits_of
from tests.integrations.langchain.recorders import observed, recording_handler
from tests.integrations.leak_probe import SECRET, LeakProbe
from tests.support.fake_chat import FakeChat
from tests.support.fresh_python import run_python

PROMPTS = [f"Patient {number} has {SECRET}." for number in range(5)]
REPLIES = [f"re {prompt}" for prompt in PROMPTS]


class Chat(BaseChatModel):
    """Says its prompt again."""

    say: Callable[[str], Any] = lambda prompt: f"re {prompt}"

    @property
    def _llm_type(self) -> str:
        return "chat"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        run_manager.on_llm_new_token(messages[-1].content)
        message = AIMessage(self.say(messages[-1].content))
        return ChatResult(generations=[ChatGeneration(message=message)])


class Text(BaseLLM):
    """The same as a text model."""

    @property
    def _llm_type(self) -> str:
        return "text"

    def _generate(self, prompts: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        return LLMResult(generations=[[Generation(text=f"re {prompt}")] for prompt in prompts])


def hidden(prompt: Any) -> Any:
    """A model that no chain shows."""
    return Chat(verbose=True).invoke(prompt)


# Each as people build it; a handler of the probe goes wherever LangChain takes one.
RUNNABLES: dict[str, Callable[[Any], Any]] = {
    "chat model": lambda handler: Chat(callbacks=[handler], verbose=True),
    "chat model with a cache": lambda handler: Chat(callbacks=[handler], cache=True),
    "text model": lambda handler: Text(callbacks=CallbackManager([handler]), verbose=True),
    "text model with a cache": lambda handler: Text(callbacks=[handler], cache=True),
    "bound": lambda handler: (
        Chat(callbacks=[handler]).bind(stop=["\n"]).with_config(callbacks=[handler])
    ),
    "chain": lambda handler: (
        ChatPromptTemplate.from_messages([("user", "{prompt}")])
        | Chat(callbacks=[handler])
        | StrOutputParser()
    ).with_config(callbacks=[handler], run_name="chain"),
    "chain in a chain": lambda handler: (
        RunnableParallel(a=RunnableLambda(str) | Text(callbacks=[handler], cache=True))
        | RunnableLambda(lambda found: found["a"])
    ),
    "fallbacks": lambda handler: Chat(say=[].index, callbacks=[handler]).with_fallbacks(
        [Chat(callbacks=[handler], cache=True)]
    ),
    "retries": lambda handler: Chat(callbacks=[handler]).with_retry(),
    "branch": lambda handler: RunnableBranch(
        (lambda prompt: True, Chat(callbacks=[handler], cache=True)), Text()
    ),
    "listeners": lambda handler: Chat().with_listeners(
        on_end=lambda run: handler.on_custom_event("end", run.outputs)
    ),
    "hidden": lambda handler: RunnableLambda(hidden).with_config(callbacks=[handler]),
}


def told_by(ask: Callable[[Any], list[str]]) -> tuple[list[str], set[str], list[str]]:
    """What is replied, the places where the secret shows, and all places that told anything."""
    probe = LeakProbe()
    with observed(probe), probe.listening():
        replies = ask(recording_handler(probe))
    return replies, set(probe.findings), probe.places


@pytest.mark.parametrize("name", RUNNABLES)
def test_nobody_is_told_of_a_call(name):
    def ask(handler):
        found = langchain_reader(RUNNABLES[name](handler))
        assert SECRET not in repr(found) + found.fingerprint
        return found.replies(PROMPTS)

    assert told_by(ask) == (REPLIES, set(), [])


def test_nobody_is_told_of_a_function_that_asks_a_model():
    def ask(handler):
        model = Chat(callbacks=[handler])
        return as_reader(lambda prompt: model.invoke(prompt).content).replies(PROMPTS)

    assert told_by(ask) == (REPLIES, set(), [])


def test_a_cache_of_the_model_itself_is_left_alone():
    class Cache(InMemoryCache):
        def lookup(self, *_: Any) -> Any:
            raise AssertionError

        update = lookup

    for model in (Chat(cache=Cache()), Text(cache=Cache()), Chat(cache=Cache()).bind(stop=["a"])):
        assert langchain_reader(model | StrOutputParser()).replies(PROMPTS) == REPLIES


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("listeners", "callback on_chat_model_start"),
        ("hidden", "trace POST"),
        ("hidden", "cache entry"),
        ("chain", "stdout"),
        ("text model", "callback on_llm_end"),
    ],
)
def test_what_is_not_held_off_is_found(monkeypatch, name, told):
    monkeypatch.setattr(quiet_calls, "_langchain_is_quiet", lambda: False)
    monkeypatch.setattr(quiet_calls, "_without_langsmith", nullcontext)
    _, places, _ = told_by(
        lambda handler: langchain_reader(RUNNABLES[name](handler)).replies(PROMPTS)
    )
    assert told in places


def test_callbacks_and_caches_of_a_model_that_are_not_taken_away_are_found(monkeypatch):
    monkeypatch.setattr(room, "_bare", lambda runnable: runnable)
    monkeypatch.setattr(quiet_calls, "_langchain_is_quiet", lambda: False)
    cache = InMemoryCache()

    def ask(handler):
        return langchain_reader(Chat(callbacks=[handler], cache=cache)).replies(PROMPTS)

    assert "callback on_llm_new_token" in told_by(ask)[1]
    assert SECRET in str(cache._cache)


@pytest.mark.parametrize(("held", "told"), [(True, False), (False, True)])
def test_functions_that_langsmith_traces_are_not(monkeypatch, held, told):
    runs: list[Any] = []

    class Client(langsmith.Client):
        def create_run(self, *given: Any, **options: Any) -> None:
            runs.append([given, options])

        update_run = create_run

    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    get_env_var.cache_clear()
    client = Client("http://tracer.invalid", api_key="none", auto_batch_tracing=False, info={})
    if not held:
        monkeypatch.setattr(quiet_calls, "_without_langsmith", nullcontext)
    try:
        traced = langsmith.traceable(client=client)(lambda prompt: f"re {prompt}")
        assert as_reader(traced).replies(PROMPTS) == REPLIES
    finally:
        get_env_var.cache_clear()
        client.close()
    assert (SECRET in str(runs)) == told
    assert bool(runs) == told


def test_everybody_else_is_told_as_ever():
    langchain_reader(Chat()).replies(PROMPTS)

    def ask(handler):
        return [Chat(callbacks=[handler]).invoke(PROMPTS[0]).content]

    replies, places, _ = told_by(ask)
    assert replies == REPLIES[:1]
    assert places >= {"callback on_chat_model_start", "cache key", "cache entry", "trace POST"}


def test_other_threads_are_told_while_a_call_runs():
    began, told = threading.Event(), threading.Event()
    probe = LeakProbe()
    model = Chat(callbacks=[recording_handler(probe)])

    def say(prompt):
        if prompt != PUBLIC_PROMPT:
            began.set()
            told.wait(10)
        return prompt

    def outside():
        began.wait(10)
        model.invoke(PROMPTS[0])
        told.set()

    thread = threading.Thread(target=outside)
    thread.start()
    langchain_reader(Chat(say=say)).replies(PROMPTS[:1])
    thread.join()
    assert "callback on_chat_model_start" in probe.findings


def test_instrumentations_that_add_handlers_are_told_nothing(monkeypatch):
    """OpenInference and OpenLLMetry add one to every manager that is made."""
    from langchain_core.callbacks.base import BaseCallbackManager

    probe = LeakProbe()
    handler, usual = recording_handler(probe), BaseCallbackManager.__init__

    def with_handler(self: Any, *given: Any, **options: Any) -> None:
        usual(self, *given, **options)
        self.add_handler(handler, True)

    monkeypatch.setattr(BaseCallbackManager, "__init__", with_handler)
    chain = RUNNABLES["chain"](handler) | RunnableLambda(hidden) | StrOutputParser()
    found = langchain_reader(chain).replies(PROMPTS)
    assert found == [f"re {reply}" for reply in REPLIES]
    assert probe.places == []
    chain.invoke(PROMPTS[0])
    assert probe.findings


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("text", "text"),
        ([{"type": "text", "text": "a"}, "b", {"type": "image"}], "ab"),
        ([{"type": "reasoning", "text": "because"}, {"type": "text", "text": "a"}], "a"),
        ([], ""),
    ],
)
def test_messages_of_parts_are_their_text(content, found):
    assert langchain_reader(Chat(say=lambda _: content)).replies(["a", "b"]) == [found] * 2


def test_a_prompt_that_makes_a_chain_fail_is_no_reply():
    def say(prompt):
        if prompt == PROMPTS[2]:
            raise ValueError(prompt)
        return prompt

    expected = [prompt if prompt != PROMPTS[2] else "" for prompt in PROMPTS]
    assert langchain_reader(Chat(say=say)).replies(PROMPTS) == expected


def test_a_chain_that_gives_no_text_is_seen_first():
    with pytest.raises(ModelError, match=r"public prompt \(dict\)"):
        langchain_reader(RunnableParallel(a=Chat())).replies(PROMPTS)


@pytest.mark.parametrize("given", [None, "model", str.upper, FakeListChatModel])
def test_what_is_no_runnable_is_refused(given):
    with pytest.raises(ConfigurationError, match="Runnable of LangChain"):
        langchain_reader(given)


def test_the_runnable_is_not_changed():
    cache, handler = InMemoryCache(), recording_handler(LeakProbe())
    model = Chat(cache=cache, callbacks=[handler], verbose=True)
    chain = model | StrOutputParser()
    langchain_reader(chain).replies(PROMPTS)
    assert chain.first is model
    assert (model.cache, model.callbacks, model.verbose) == (cache, [handler], True)


def test_a_rate_limiter_is_asked_for_every_call():
    class Limiter(BaseRateLimiter):
        asked = 0

        def acquire(self, *, blocking: bool = True) -> bool:
            type(self).asked += 1
            return True

        async def aacquire(self, *, blocking: bool = True) -> bool:
            raise AssertionError

    langchain_reader(Chat(rate_limiter=Limiter())).replies(PROMPTS)
    assert Limiter.asked == len(PROMPTS) + 1


def test_hooks_of_environment_variables_are_held_off(monkeypatch):
    from contextvars import ContextVar

    from langchain_core.tracers import context

    probe = LeakProbe()
    monkeypatch.setattr(context, "_configure_hooks", list(context._configure_hooks))
    kind = type(recording_handler(probe))
    register_configure_hook(ContextVar("hook", default=None), True, kind, "A_HOOK")
    monkeypatch.setenv("A_HOOK", "true")
    langchain_reader(Chat()).replies(PROMPTS)
    assert probe.places == []
    Chat().invoke(PROMPTS[0])
    assert probe.findings


LATE = """
import sys
from dpicl_rag.language_models.readers.as_reader import as_reader

def call(prompt):
    from langchain_core.callbacks import StdOutCallbackHandler
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.runnables import RunnableLambda
    model = FakeListChatModel(responses=[prompt])
    handlers = [StdOutCallbackHandler()]
    return RunnableLambda(model.invoke).invoke(prompt, {"callbacks": handlers}).content

assert "langchain_core" not in sys.modules
assert as_reader(call).replies(["quillon"]) == ["quillon"]
print("once more")
call("outside")
"""


@pytest.mark.heavy
def test_what_a_function_loads_by_itself_is_held_off_before_it_reads():
    told = run_python(LATE).stdout
    read, outside = told.split("once more")
    assert read.count("chain...") <= 1  # of the public prompt
    assert "quillon" not in told
    assert "chain..." in outside


# A model that people have, over HTTP.


@pytest.fixture
def fake():
    with FakeChat(lambda prompt: f"re {prompt}") as fake:
        yield fake


def hosted(fake: FakeChat, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(
        **{"model": "tiny", "base_url": fake.url, "api_key": "sesame", "max_retries": 0, **options}
    )


def test_chat_openai_reads(fake):
    def ask(handler):
        return langchain_reader(hosted(fake, callbacks=[handler])).replies(PROMPTS)

    assert told_by(ask) == (REPLIES, set(), [])
    assert fake.prompts[0] == PUBLIC_PROMPT


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("status", [429, 500, "reset"])
def test_trouble_of_chat_openai_passes_or_is_that_of_one_prompt_or_of_all(fake, status):
    failing = {PROMPTS[1]: 1}

    def say(prompt):
        failing[prompt] = failing.get(prompt, 0) - 1
        return status if failing[prompt] >= 0 else f"re {prompt}"

    fake.say = say
    found = langchain_reader(hosted(fake), backoff=0.001)
    assert found.replies(PROMPTS) == REPLIES
    failing[PROMPTS[1]] = 10**9
    own = [REPLIES[0], "", *REPLIES[2:]]
    assert langchain_reader(hosted(fake), backoff=0.001).replies(PROMPTS) == own
    failing[PUBLIC_PROMPT] = 10**9
    with pytest.raises(EngineUnavailableError) as caught:
        found.replies(PROMPTS)
    assert caught.value.__context__ is None


def test_refusals_of_chat_openai(fake):
    fake.say = lambda prompt: 401
    with pytest.raises(ModelError, match="check the key") as caught:
        langchain_reader(hosted(fake)).replies(PROMPTS)
    assert caught.value.__context__ is None
    fake.say = lambda prompt: 400 if prompt == PROMPTS[0] else f"re {prompt}"
    assert langchain_reader(hosted(fake)).replies(PROMPTS) == ["", *REPLIES[1:]]
    with pytest.raises(openai.BadRequestError):
        hosted(fake).invoke(PROMPTS[0])


@pytest.mark.parametrize(("given", "sent"), [({}, TOKENS), ({"max_tokens": 40}, 40)])
def test_a_model_without_a_limit_of_tokens_has_one(fake, given, sent):
    model = hosted(fake, **given)
    for asked in (model, model.bind(stop=["a"]) | StrOutputParser()):
        langchain_reader(asked).replies(PROMPTS[:1])
    assert {body["max_completion_tokens"] for body in fake.bodies} == {sent}
    assert model.max_tokens == given.get("max_tokens")


def test_a_limit_that_is_below_zero_is_none():
    """So Ollama's models write without one."""

    class Local(Chat):
        num_predict: int | None = -1

    assert limits_of(Local()) == {"num_predict": TOKENS}
    assert limits_of(Local(num_predict=9)) == limits_of(Chat()) == {}


def test_fingerprints_name_a_model_by_its_settings(fake):
    first = langchain_reader(hosted(fake)).fingerprint
    assert first.startswith("langchain ChatOpenAI ")
    assert "sesame" not in first
    assert langchain_reader(hosted(fake, api_key="other")).fingerprint == first
    for changed in ({"model": "b"}, {"base_url": "http://b/v1"}, {"temperature": 0.5}):
        assert langchain_reader(hosted(fake, **changed)).fingerprint != first
    kinds = {first, langchain_reader(OpenAI(model="tiny", api_key="sesame")).fingerprint}
    assert len(kinds) == 2


def test_what_does_not_tell_its_settings_has_a_name_of_its_own():
    model = Chat()
    names = {langchain_reader(model).fingerprint for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("langchain Chat ") for name in names)


def test_langchain_is_loaded_for_nobody_who_has_not(monkeypatch):
    monkeypatch.delitem(room.sys.modules, "langchain_core.runnables.base")
    assert not room.is_runnable(Chat())
