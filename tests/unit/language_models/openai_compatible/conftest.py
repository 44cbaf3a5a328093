from __future__ import annotations

import pytest

from dpicl_rag.language_models.openai_compatible import openai_model as room
from dpicl_rag.language_models.openai_compatible.http_client import Server
from dpicl_rag.language_models.openai_compatible.openai_model import OpenAICompatibleModel
from dpicl_rag.rehearsal import Rehearsal
from tests.support.fake_server import FakeServer
from tests.support.tiny_model import build_tiny_tokenizer


@pytest.fixture(autouse=True)
def tiny_tokenizer(monkeypatch):
    """The tokenizer that servers name is the tiny one."""
    monkeypatch.delenv(room.KEY, raising=False)

    def load(name: str):
        if name != FakeServer.name:
            raise OSError(name)
        return build_tiny_tokenizer()

    def none(name: str):
        raise OSError(name)

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", load)
    monkeypatch.setattr("transformers.GenerationConfig.from_pretrained", none)
    monkeypatch.setattr("dpicl_rag.weights.answers_for", lambda name: True)


@pytest.fixture(autouse=True)
def unrehearsed(monkeypatch):
    """Requests of answers alone are counted here; those of rehearsals are asked elsewhere."""
    monkeypatch.setattr("dpicl_rag.answering.private_run.rehearsal_of", lambda _: Rehearsal())


class Hasty(Server):
    """Has no patience with a question that is going to fail, and much with any other."""

    fake: FakeServer
    patience = 60.0

    @property
    def _deadline(self) -> float:
        next_one = len(self.fake.bodies) + 1
        fault, later = self.fake.fault(next_one), self.fake.fault(next_one + 1000)
        failing = fault in ("silent", "dripping") or None not in (fault, later)
        failing = failing and fault not in ("redirected", "refused: a prompt is too long")
        return 0.1 if failing else self.patience


@pytest.fixture
def serve(tiny_model):
    """A server of the tiny model and a model that is connected to it; faults come after that."""
    running = []

    def serve(fault=lambda number: None, model=tiny_model, **options):
        fake = FakeServer(model, **options)
        fake.start()
        running.append(fake)
        connected = OpenAICompatibleModel(fake.address())
        connected.tokenizer.stop_tokens = model.tokenizer.stop_tokens
        client = connected._completions.server
        del client._deadline
        client._backoff = 0.01
        client.__class__, client.fake = type("Hasty", (Hasty,), {}), fake
        fake.bodies.clear()
        fake.fault = fault
        return fake, connected

    yield serve
    for fake in running:
        fake.kill()
