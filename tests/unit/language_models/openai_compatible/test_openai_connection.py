"""What is found out when a server is connected, and what is said where it will not do."""

from __future__ import annotations

import asyncio
import warnings

import pytest

from dpicl_rag import ModelError, PrivateContextLLM
from dpicl_rag.errors import ConfigurationError, EngineUnavailableError
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.language_models.openai_compatible import http_client
from dpicl_rag.language_models.openai_compatible import openai_model as room
from dpicl_rag.language_models.openai_compatible.openai_model import OpenAICompatibleModel
from dpicl_rag.mechanisms.randomness import NotPrivateWarning
from tests.support.at_once import Meeting, at_once
from tests.support.fake_server import FAULTS, SECRET, FakeServer
from tests.support.tiny_model import build_tiny_tokenizer


@pytest.fixture
def fake(tiny_model):
    """Makes a server that runs until the test ends."""
    running = []

    def start(**options):
        running.append(FakeServer(tiny_model, **options))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.kill()


@pytest.mark.parametrize("most", [1000, 150, 20, 7])
def test_as_many_log_probabilities_as_the_server_gives(fake, most, tiny_model):
    connected = OpenAICompatibleModel(fake(most=most).address())
    whole = len(tiny_model.tokenizer.vocabulary)
    allowed = {1000: whole, 150: 100, 20: 20, 7: 5}
    assert connected._completions.shown == allowed[most]
    assert connected._completions.names == (most != 1000)  # else none is left to be named
    assert connected.context_length == tiny_model.context_length - 1


def test_every_way_in_takes_an_address(fake):
    address = fake().address()
    assert isinstance(load_language_model(address), OpenAICompatibleModel)
    llm = PrivateContextLLM(address, max_tokens=2, unsupported="ignore")
    assert llm.answer("Why?", ["because"]).tokens > 0
    assert OpenAICompatibleModel(address).fingerprint == llm.model.fingerprint


def test_an_only_model_needs_no_name(fake):
    server = fake()
    address = server.address().partition("#")[0]
    assert OpenAICompatibleModel(address)._completions.model == server.name


@pytest.mark.parametrize("kind", ["vllm", "llama"])
def test_a_server_whose_bits_move_with_company_warns(fake, kind):
    with pytest.warns(NotPrivateWarning, match="VLLM_BATCH_INVARIANT=1"):
        OpenAICompatibleModel(fake(kind=kind, moves=1e-6).address())


def test_a_server_whose_bits_move_with_its_cache_warns(fake):
    server = fake()
    row, seen = server.row, set()

    def warm(prompt):
        nudge = 1e-6 * (prompt in seen)
        seen.add(prompt)
        return [(token, value - nudge) for token, value in row(prompt)]

    server.row = warm
    with pytest.warns(NotPrivateWarning, match="no function of one document"):
        OpenAICompatibleModel(server.address())


def test_a_steady_server_does_not_warn(fake):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OpenAICompatibleModel(fake().address())


@pytest.mark.parametrize("kind", ["vllm", "llama"])
def test_another_tokenizer_is_refused(fake, kind, monkeypatch):
    def other(name):
        tokenizer = build_tiny_tokenizer()
        tokenizer.add_tokens(["don"])
        return tokenizer

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", other)
    with pytest.raises(ModelError, match=r"tokenizer here is not .*\?tokenizer=NAME"):
        OpenAICompatibleModel(fake(kind=kind).address())


def test_a_server_that_does_not_tell_how_it_reads_is_believed(fake):
    OpenAICompatibleModel(fake(tokenizes=False).address())


def test_a_tokenizer_that_is_named_is_taken(fake, monkeypatch):
    asked = []

    def load(name):
        asked.append(name)
        return build_tiny_tokenizer()

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", load)
    monkeypatch.setattr(
        "dpicl_rag.language_models.converted_models.QuantisedModel.folder", lambda _: "/packaged"
    )
    server = fake()
    OpenAICompatibleModel(server.address(tokenizer="/models/a"))
    OpenAICompatibleModel(server.address(), tokenizer="/models/b")
    OpenAICompatibleModel(server.address(tokenizer="default"))
    assert asked == ["/models/a", "/models/b", "/packaged"]


def test_a_tokenizer_that_cannot_be_loaded_is_one_line(fake):
    with pytest.raises(ModelError, match=r"'nowhere'.*\?tokenizer=default"):
        OpenAICompatibleModel(fake().address(tokenizer="nowhere"))


def test_a_context_that_the_server_does_not_tell_is_given(fake):
    server = fake()
    whole, server.context = server.context, None
    with pytest.raises(ConfigurationError, match=r"\?context=4096"):
        OpenAICompatibleModel(server.address())
    address, server.context = server.address(context=512), whole
    assert OpenAICompatibleModel(address).context_length == 511


def test_a_key_is_sent_and_nothing_else_is(fake, monkeypatch):
    monkeypatch.setenv(room.KEY, "sesame")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server = fake()
    OpenAICompatibleModel(server.address())
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer sesame"}
    connected = OpenAICompatibleModel(server.address(), key="other")
    assert server.headers[-1]["Authorization"] == "Bearer other"
    assert "other" not in repr(vars(connected)) + repr(connected._completions)


def test_no_server_is_one_line_at_once(fake):
    server = fake()
    server.kill()
    with pytest.raises(ModelError, match=r"no OpenAI-compatible server answers at http://127") as e:
        OpenAICompatibleModel(server.address())
    assert not isinstance(e.value, EngineUnavailableError)
    server.start()


def test_a_model_that_is_not_there_is_one_line(fake):
    address = fake().address().replace("#tiny", "#large")
    with pytest.raises(ModelError, match="has no model 'large'") as caught:
        OpenAICompatibleModel(address)
    assert SECRET not in str(caught.value)


def test_hosted_completions_name_no_tokens_and_are_refused(fake):
    with pytest.raises(ModelError, match="does not give what this engine needs") as caught:
        OpenAICompatibleModel(fake(kind="hosted").address())
    assert SECRET not in str(caught.value)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_fails_while_it_is_tried_is_one_line(fake, fault):
    server = fake(fault=lambda number: fault)
    with pytest.raises(ModelError) as caught:
        OpenAICompatibleModel(server.address(deadline=0.1))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    # Later, when it had been found able.
    server = fake(fault=lambda number: None if number < 4 else fault)
    with pytest.raises(ModelError):
        OpenAICompatibleModel(server.address(deadline=0.1))


@pytest.fixture
def no_loop(monkeypatch):
    """A process that has asked no server yet."""
    monkeypatch.setattr(http_client, "_loops", {})


async def running():
    return asyncio.get_running_loop()


def test_threads_that_ask_first_at_once_share_one_event_loop(no_loop, monkeypatch):
    """A client's connections belong to the loop that opened them."""
    meeting, new_event_loop = Meeting(), asyncio.new_event_loop

    def new():
        meeting.wait()
        return new_event_loop()

    monkeypatch.setattr(http_client.asyncio, "new_event_loop", new)
    assert len(set(at_once([lambda: http_client.run_in_loop(running())] * 4))) == 1


def test_what_collects_garbage_while_the_loop_is_made_shares_it(no_loop, monkeypatch):
    """A client that is collected there closes in the loop, which is not there yet."""
    new_event_loop, inner = asyncio.new_event_loop, []

    def new():
        if not inner:
            inner.append(None)
            inner.append(http_client.run_in_loop(running()))
        return new_event_loop()

    monkeypatch.setattr(http_client.asyncio, "new_event_loop", new)
    assert http_client.run_in_loop(running()) is inner[1]
