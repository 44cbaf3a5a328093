"""A real server in a thread, over a made-up model and documents that agree."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import pytest
import uvicorn.server

from dpicl_rag import Document, Ledger
from dpicl_rag.retrieval import GivenDocuments
from dpicl_rag.server.api_keys import KeyFile
from dpicl_rag.server.app import create_app
from dpicl_rag.server.run import make_server
from dpicl_rag.server.service import ServedCorpus, Service
from dpicl_rag.server.uploads import Uploads
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scripted_model import ScriptedModel

SECRET = "swordfish"
NOTES = [Document(f"The office is in Elm Lane. {SECRET}", f"unit-{n}") for n in range(40)]
CANTEEN = ScriptedModel({"canteen": "The canteen opens at noon.", "": "I cannot know that."})


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


class Running:
    """Where a server is, and what is behind it."""

    def __init__(self, url, service, server, thread):
        self.url, self.service, self.server, self.thread = url, service, server, thread
        services = server.config.app.state.parts
        self.admission = services.admission
        # Without keys the owner has the key of this run, and so has this client.
        self.key = None if services.run_key is None else services.run_key.text
        self.headers = {} if self.key is None else bearer(self.key)
        self.page = url if self.key is None else services.run_key.address(f"{url}/")
        self.client = httpx.Client(base_url=url, timeout=30, headers=self.headers)

    def ask(self, question="Where is the office?", **more):
        messages = [{"role": "user", "content": question}]
        body = {"model": "notes", "messages": messages, **more}
        return self.client.post("/v1/chat/completions", json=body)

    def connect(self):
        """A connection of one's own."""
        url = httpx.URL(self.url)
        return socket.create_connection((url.host, url.port), timeout=30)

    def send(self, body, path="/v1/chat/completions", **headers):
        """Ask, and leave it to the caller to read or to hang up."""
        text = json.dumps(body).encode()
        given = {
            "Host": httpx.URL(self.url).netloc.decode(),
            "Content-Type": "application/json",
            "Content-Length": len(text),
            "Connection": "close",
            **self.headers,
            **headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        sent = self.connect()
        sent.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + text)
        return Sent(sent)


class Sent:
    """A request under way."""

    def __init__(self, connection):
        self._connection = connection

    def read(self):
        """All that comes."""
        parts = []
        while part := self._connection.recv(65536):
            parts.append(part)
        return b"".join(parts)

    def read_some(self):
        """What has come."""
        return self._connection.recv(65536)

    def close(self):
        """Hang up."""
        self._connection.close()


async def brief(seconds):
    """Servers look ten times a second whether they end, and wait as long when they do."""
    await asyncio.sleep(seconds / 20)


@contextmanager
def running(app, service):
    swift = SimpleNamespace(**{**vars(asyncio), "sleep": brief})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", swift)
        yield from _running(app, service)


def _running(app, service):
    server = make_server(app, host="127.0.0.1", port=0)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.001)
    found = Running(f"http://127.0.0.1:{listening.getsockname()[1]}", service, server, thread)
    try:
        yield found
    finally:
        found.client.close()
        server.handle_exit(15, None)
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def serve(tmp_path, tiny_model):
    """Start a server; it ends with the test."""
    stack = []

    def start(
        keys=None,
        budget=1e6,
        limits=None,
        model=None,
        documents=NOTES,
        request_log=None,
        owner=None,
        reading=None,
        ledger="ledger.sqlite",
        **settings,
    ):
        ledger = Ledger(tmp_path / ledger)
        ledger.set_budget(corpus="notes", rho=budget)
        # Made-up models guess, and their words show what comes through.
        drawn = {} if settings.get("accounting") == "fixed" else {"agreement": "auto"}
        settings = {"max_tokens": 8, "unsupported": "mark", **drawn, **settings}
        corpora = {"notes": ServedCorpus(GivenDocuments(documents), settings)}
        memory = tmp_path / "memory.sqlite"
        service = Service(
            model or tiny_model,
            corpora,
            ledger,
            memory=memory,
            embedder=BucketEmbedder(),
            **reading or {},
        )
        app = create_app(service, keys, limits, request_log, **owner or {})
        context = running(app, service)
        stack.append(context)
        return context.__enter__()

    yield start
    for context in stack:
        context.__exit__(None, None, None)


@pytest.fixture
def keys(tmp_path):
    return KeyFile(tmp_path / "keys.sqlite")


@pytest.fixture
def uploads(tmp_path):
    return Uploads(tmp_path / "store", BucketEmbedder(), most_bytes=100_000)


@pytest.fixture
def owned(serve, uploads):
    """A server without keys: whoever asks is the owner."""
    return serve(model=CANTEEN, owner={"uploads": uploads})
