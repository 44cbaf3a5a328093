"""Before the first word a stream tells which part of the documents is read, in tenths alone."""

from __future__ import annotations

import json

import openai
import pytest

from dpicl_rag.server import served_request
from tests.support.paced_model import ReadingModel
from tests.unit.server.test_server_ends import QUESTION


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(served_request, "TELLING", 0.01)


def test_a_stream_tells_a_part_before_its_first_word(serve):
    model = ReadingModel()
    running = serve(model=model)
    told, said = [], []
    model.steps.release(2)
    with running.client.stream(
        "POST", "/v1/chat/completions", json={**QUESTION, "stream": True}
    ) as answer:
        for line in answer.iter_lines():
            if line.startswith(": read "):
                assert not any(said)
                told.append(line.removeprefix(": read "))
                model.steps.release()
            elif line.startswith("data: {"):
                choice = json.loads(line[6:])["choices"][0]
                said.append(choice["delta"].get("content", ""))
    # Sevenths are rounded down to tenths, and what is told twice is told once.
    assert told[:5] == ["0.1", "0.2", "0.4", "0.5", "0.7"]
    assert "".join(said) == "abcdefgh"


def test_clients_of_openai_pass_over_it(serve):
    model = ReadingModel()
    model.steps.release(100)
    running = serve(model=model)
    client = openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key)
    stream = client.chat.completions.create(
        model="notes", messages=QUESTION["messages"], stream=True
    )
    said = [part.choices[0].delta.content or "" for part in stream if part.choices]
    assert "".join(said) == "abcdefgh"
