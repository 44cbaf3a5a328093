"""A chat model behind OpenAI's interface, asked over HTTP."""

from __future__ import annotations

import gc
import random
import threading
from contextvars import copy_context

import pytest

from dpicl_rag.auditing.channels import Channels
from dpicl_rag.errors import ConfigurationError, EngineUnavailableError, ModelError
from dpicl_rag.language_models.openai_compatible.server_address import READER_KEY, ChatAddress
from dpicl_rag.language_models.readers.chat_endpoint import chat_endpoint
from dpicl_rag.language_models.readers.concurrent_reader import PUBLIC_PROMPT
from dpicl_rag.language_models.readers.reply_cache import CHARACTERS
from tests.support.fake_chat import SECRET, FakeChat, reply
from tests.support.garbage import same_variables

PROMPTS = [f"Ida's code is {number}." for number in range(17)]


@pytest.fixture(autouse=True)
def own_world(monkeypatch):
    monkeypatch.delenv(READER_KEY, raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def fake():
    with FakeChat() as fake:
        yield fake


def but_for_the_public(say):
    return lambda prompt: "OK" if prompt == PUBLIC_PROMPT else say(prompt)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("chat+http://127.0.0.1:11434/v1#tiny", ChatAddress("http://127.0.0.1:11434/v1", "tiny")),
        ("chat+https://host/v1/", ChatAddress("https://host/v1")),
        ("chat+http://[::1]:80/v1#a/b:c", ChatAddress("http://[::1]:80/v1", "a/b:c")),
        (
            "chat+http://host/v1?deadline=1.5&concurrency=3#m",
            ChatAddress("http://host/v1", "m", 1.5, 3),
        ),
    ],
)
def test_addresses(text, found):
    assert ChatAddress.meant(text)
    assert ChatAddress.parse(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "chat+",
        "chat+ftp://host/v1",
        "chat+http:///v1",
        "chat+http://host:many/v1",
        "chat+http://host/v1?deadlin=1",
        "chat+http://host/v1?deadline=0",
        "chat+http://host/v1?deadline=nan",
        "chat+http://host/v1?deadline=inf",
        "chat+http://host/v1?concurrency=0",
        "chat+http://host/v1?concurrency=1.5",
        "chat+http://host/v1?concurrency",
        "openai+http://host/v1",
        "http://host/v1",
        "",
    ],
)
def test_what_is_no_address_is_one_line_that_shows_one(text):
    with pytest.raises(ConfigurationError, match="looks like chat\\+http://HOST:PORT") as caught:
        chat_endpoint(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("user", ["user:hunter2", "hunter2", ":hunter2", ""])
def test_a_key_has_no_place_in_an_address(user):
    with pytest.raises(ConfigurationError, match=READER_KEY) as caught:
        chat_endpoint(f"chat+http://{user}@host/v1#m")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["/models/chat", "openai+http://host", None, ("chat+", "b")])
def test_other_things_are_not_meant(text):
    assert not ChatAddress.meant(text)


def test_replies_of_a_server(fake):
    found = chat_endpoint(fake.address())
    assert found.replies(PROMPTS) == [f"re {prompt}" for prompt in PROMPTS]
    assert fake.prompts[0] == PUBLIC_PROMPT
    assert sorted(fake.prompts[1:]) == sorted(PROMPTS)
    for body in fake.bodies:  # every call is a conversation of its own
        assert body == {
            "model": "tiny",
            "messages": [{"role": "user", "content": body["messages"][0]["content"]}],
            "stream": False,
            "temperature": 0,
            "max_tokens": 64,
        }
    assert repr(found) == f"ConcurrentReader({fake.address()})"


def test_an_address_sets_how_calls_are_made(fake):
    found = chat_endpoint(fake.address(deadline=3.5, concurrency=2))
    assert (found._deadline, found._concurrency) == (3.5, 2)
    assert found.fingerprint == fake.address()


def test_an_only_model_needs_no_name(fake):
    assert chat_endpoint(fake.address("")).fingerprint == fake.address()


@pytest.mark.parametrize("models", [[], ["a", "b"], [7]])
def test_a_model_is_named_where_there_are_several(fake, models):
    fake.models = models
    with pytest.raises(ModelError, match="#MODEL") as caught:
        chat_endpoint(fake.address(""))
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


def test_no_server_that_could_name_a_model_is_one_line():
    with FakeChat() as fake:
        address = fake.address("")
    with pytest.raises(ModelError, match="see that it runs") as caught:
        chat_endpoint(address)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({READER_KEY: "sesame", "OPENAI_API_KEY": "other"}, "Bearer sesame"),
        ({"OPENAI_API_KEY": " other\n"}, "Bearer other"),
        ({READER_KEY: "", "OPENAI_API_KEY": "other"}, None),
        ({}, None),
    ],
)
def test_a_key_is_sent_if_one_is_set(fake, monkeypatch, given, sent):
    for name, key in given.items():
        monkeypatch.setenv(name, key)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    found = chat_endpoint(fake.address())
    found.replies(PROMPTS[:2])
    assert {headers.get("Authorization") for headers in fake.headers} == {sent}
    assert "sesame" not in repr(found) + repr(vars(found))


@pytest.mark.parametrize("key", ["schlüssel", "a\nb"])
def test_a_key_that_cannot_be_sent_is_one_line(fake, monkeypatch, key):
    monkeypatch.setenv(READER_KEY, key)
    with pytest.raises(ConfigurationError, match=READER_KEY) as caught:
        chat_endpoint(fake.address())
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("refuses", "left"),
    [
        ({"temperature"}, {"max_tokens"}),
        ({"max_tokens"}, {"temperature", "max_completion_tokens"}),
        ({"temperature", "max_tokens"}, {"max_completion_tokens"}),
    ],
)
def test_settings_that_a_model_refuses_are_left_out(fake, refuses, left):
    fake.refuses = refuses
    found = chat_endpoint(fake.address())
    assert found.replies(PROMPTS) == [f"re {prompt}" for prompt in PROMPTS]
    assert set(fake.prompts[: min(map(fake.prompts.index, PROMPTS))]) == {PUBLIC_PROMPT}
    asked = [set(body) for body in fake.bodies if body["messages"][0]["content"] in PROMPTS]
    assert len(asked) == len(PROMPTS)
    assert all(names == {"model", "messages", "stream", *left} for names in asked)


def test_settings_do_not_follow_from_a_private_prompt(fake):
    fake.say = but_for_the_public(lambda prompt: 400 if prompt == PROMPTS[3] else "fine")
    assert chat_endpoint(fake.address()).replies(PROMPTS) == [
        "" if prompt == PROMPTS[3] else "fine" for prompt in PROMPTS
    ]
    assert all("temperature" in body for body in fake.bodies)
    assert len(fake.bodies) == len(PROMPTS) + 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("said", "found"),
    [
        (reply("cut off", "content_filter"), ""),
        (reply("cut off", "length"), "cut off"),
        (reply(None), ""),
        (reply(7), ""),
        (
            reply(
                [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
            ),
            "ab",
        ),
        ({"choices": []}, ""),
        ({"choices": [{"message": {}}]}, ""),
        ({}, ""),
        (400, ""),
        (413, ""),
        (422, ""),
        (403, ""),
        ({"error": {"code": 400, "message": SECRET}}, ""),
        ("word " * 1000, ("word " * 1000)[:CHARACTERS]),
        (reply("word " * 300_000), ""),
    ],
)
def test_what_is_said_of_one_prompt_is_its_own(fake, said, found):
    fake.say = but_for_the_public(lambda prompt: said if prompt == PROMPTS[3] else "fine")
    expected = [found if prompt == PROMPTS[3] else "fine" for prompt in PROMPTS]
    assert chat_endpoint(fake.address()).replies(PROMPTS) == expected


TROUBLE = [408, 409, 425, 429, 500, 503, "reset", "no json"]
TROUBLE += [{"error": {"code": 429}}, {"error": {"message": SECRET}}]


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("trouble", TROUBLE)
def test_trouble_passes_or_is_that_of_one_prompt_or_of_all(fake, trouble):
    left = dict.fromkeys(PROMPTS[2:5], 2)

    def say(prompt):
        if left.get(prompt, 0) > 0:
            left[prompt] -= 1
            return trouble
        return "fine"

    fake.say = say
    found = chat_endpoint(fake.address(), backoff=0.001)
    assert found.replies(PROMPTS) == ["fine"] * len(PROMPTS)
    left = {PROMPTS[2]: 10**9}
    own = ["" if prompt == PROMPTS[2] else "fine" for prompt in PROMPTS]
    assert chat_endpoint(fake.address(), backoff=0.001).replies(PROMPTS) == own
    left[PUBLIC_PROMPT] = 10**9
    with pytest.raises(EngineUnavailableError) as caught:
        found.replies(PROMPTS)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(2, 8))]
)
def test_all_or_none_under_random_trouble(fake, seed):
    coins, lock = random.Random(seed), threading.Lock()
    likely = coins.choice([0.2, 0.5, 1.0])

    def say(prompt):
        with lock:
            fails = ready and coins.random() < likely
            return coins.choice(TROUBLE) if fails else f"re {prompt}"

    ready = False
    fake.say = say
    found = chat_endpoint(fake.address(deadline=1.0), backoff=0.002)
    found.replies([])
    ready = True
    try:
        replies = found.replies(PROMPTS)
    except EngineUnavailableError:
        replies = None
    assert replies in (None, [f"re {prompt}" for prompt in PROMPTS])


@pytest.mark.parametrize("status", [301, 307, 308, 401, 403, 404])
def test_refusals_are_one_line_and_redirections_are_not_followed(fake, status):
    fake.say = lambda prompt: status
    with pytest.raises(ModelError, match="check the key") as caught:
        chat_endpoint(fake.address()).replies(PROMPTS)
    assert not isinstance(caught.value, EngineUnavailableError)
    assert SECRET not in str(caught.value)
    assert fake.prompts == [PUBLIC_PROMPT]


def test_a_server_that_never_takes_the_public_prompt_is_told(fake):
    fake.say = lambda prompt: 400
    with pytest.raises(ModelError, match="HTTP 400"):
        chat_endpoint(fake.address()).replies(PROMPTS)
    assert set(fake.prompts) == {PUBLIC_PROMPT}


def test_a_server_that_is_gone_is_unavailable():
    with FakeChat() as fake:
        found = chat_endpoint(fake.address(deadline=0.2))
    with pytest.raises(EngineUnavailableError):
        found.replies(PROMPTS)


def test_nothing_of_a_prompt_is_logged(fake):
    fake.say = but_for_the_public(lambda prompt: 400 if prompt == PROMPTS[0] else f"re {prompt}")
    channels = Channels()
    with channels.listening():
        chat_endpoint(fake.address("")).replies(PROMPTS)
    assert channels.told == {}


@pytest.mark.usefixtures("frozen")
def test_its_end_is_quiet_and_sets_no_variable_of_whoever_it_falls_on(fake):
    left = [chat_endpoint(fake.address())]
    left[0].replies(PROMPTS[:1])
    client = left[0]._call._client
    left.append(left)
    channels = Channels()
    before = copy_context()
    with channels.listening():
        del left
        gc.collect()
    assert client.is_closed
    assert channels.told == {}
    assert same_variables(before)
