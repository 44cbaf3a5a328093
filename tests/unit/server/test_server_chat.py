"""Questions over HTTP, by plain requests and by OpenAI's own client."""

from __future__ import annotations

import json

import openai
import pytest

from tests.unit.server.conftest import SECRET


@pytest.fixture
def client(serve):
    with openai.OpenAI(base_url=f"{serve().url}/v1", api_key="none", max_retries=0) as found:
        yield found


def test_models_are_corpora_and_the_public_one(client):
    assert [model.id for model in client.models.list()] == ["notes", "public"]


def test_an_answer_comes_with_its_guarantee(serve):
    answer = serve().ask()
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["choices"][0]["finish_reason"] in ("stop", "length")
    assert body["privacy"]["epsilon"] == 8.0
    assert body["usage"]["completion_tokens"] <= 8
    assert answer.headers["x-dpicl-epsilon"] == "8"


def test_a_stream_is_the_answer_in_pieces(client):
    messages = [{"role": "user", "content": "Where is the office?"}]
    chunks = list(client.chat.completions.create(model="notes", messages=messages, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")
    assert chunks[-1].privacy["epsilon"] == 8.0


def test_the_public_model_reads_nothing_and_spends_nothing(serve):
    running = serve()
    assert running.ask(model="public").status_code == 200
    (status,) = running.house.ledger.status()
    assert status.questions == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [("logprobs", True), ("n", 2), ("tools", [{}]), ("seed", 1), ("sources", True)],
)
def test_what_would_need_private_numbers_is_refused_by_name(serve, field, value):
    answer = serve().ask(**{field: value})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)


def test_what_has_no_effect_is_named(serve):
    answer = serve().ask(temperature=0.2, user="ann")
    assert answer.headers["x-dpicl-ignored"] == "temperature, user"


def test_a_budget_that_is_used_up_is_a_quota_in_openais_words(serve):
    running = serve(budget=1e-6)
    messages = [{"role": "user", "content": "Where is the office?"}]
    with (
        openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=3) as client,
        pytest.raises(openai.RateLimitError) as refused,
    ):
        client.chat.completions.create(model="notes", messages=messages)
    assert refused.value.code == "budget_exceeded"
    assert refused.value.type == "insufficient_quota"


@pytest.mark.parametrize(
    "body",
    ["{", "[]", "{}", '{"model": 3, "messages": []}', '{"model": "notes", "messages": "hello"}'],
)
def test_a_malformed_body_is_an_error_of_the_client(serve, body):
    headers = {"Content-Type": "application/json"}
    answer = serve().client.post("/v1/chat/completions", content=body, headers=headers)
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_an_unknown_model_and_an_unknown_path_are_not_found(serve):
    running = serve()
    assert running.ask(model="payroll").json()["error"]["code"] == "model_not_found"
    assert running.client.get("/v1/secrets").status_code == 404


def test_a_large_body_is_refused(serve):
    assert serve().ask("x" * 100_000).status_code == 413


def test_what_goes_wrong_inside_is_told_in_one_sentence(serve, monkeypatch):
    running = serve()

    def broken(*_):
        raise RuntimeError(f"a document says {SECRET}")

    monkeypatch.setattr(running.house, "stream", broken)
    for stream in (False, True):
        answer = running.ask(stream=stream)
        assert answer.status_code == 500
        assert SECRET not in answer.text
        assert json.loads(answer.text)["error"]["code"] == "unavailable"
