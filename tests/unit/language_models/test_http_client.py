"""One client for all servers of models: nobody else sees what is sent, and no reply has no end."""

from __future__ import annotations

import gc

import pytest

from dpicl_rag.auditing.channels import Channels
from dpicl_rag.language_models.event_loop import SERVERS
from dpicl_rag.language_models.http_client import HttpClient
from tests.support.fake_chat import FakeChat

PROMPT = {"messages": [{"role": "user", "content": "quillon-vexatrix"}]}


@pytest.fixture
def fake():
    with FakeChat() as fake:
        yield fake


def ask(client, fake, seconds=30.0):
    return client.request("POST", f"{fake.url}/chat/completions", PROMPT, seconds)


@pytest.mark.parametrize(("most", "fits"), [(200, False), (10_000, True)])
def test_a_reply_is_as_long_as_it_may_be(fake, most, fits):
    fake.say = lambda prompt: "word " * 100
    client = HttpClient(None, most)
    if fits:
        assert ask(client, fake).is_success
    else:
        with pytest.raises(ValueError, match=r"^the reply is too long$"):
            ask(client, fake)


def test_a_reply_that_does_not_come_ends_in_time(fake):
    fake.say = lambda prompt: "silence"
    with pytest.raises(TimeoutError):
        ask(HttpClient(None, 1000), fake, seconds=0.05)


@pytest.mark.parametrize("status", [307, 404])
def test_a_redirection_is_a_reply(fake, status):
    fake.say = lambda prompt: status
    found = ask(HttpClient(None, 1000), fake)
    assert (found.status_code, found.is_success) == (status, False)
    assert len(fake.bodies) == 1


def test_nobody_hears_of_a_request_nor_of_the_end_of_its_connection(fake):
    channels = Channels()
    with channels.listening():
        client = HttpClient("hunter2", 1000)
        assert "hunter2" not in repr(client)
        ask(client, fake)
        del client
        gc.collect()
        SERVERS.run(nothing())  # the end comes before
    assert channels.told == {}


async def nothing():
    pass
