"""Limits of keys and of the queue, in OpenAI's form."""

from __future__ import annotations

import openai
import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.server.admission import Rate, ServerLimits
from dpicl_rag.server.failures import Refusal
from tests.support.paced_model import PacedModel
from tests.unit.server.test_server_ends import QUESTION, until


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("wrong", [{"together": 0}, {"each": 0}, {"waiting": -1}, {"seconds": 0}])
def test_limits_outside_their_range_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        ServerLimits(**wrong)


def test_a_key_has_so_many_questions_a_minute(serve, keys):
    first, second = keys.add("ann"), keys.add("bob")
    running = serve(keys, model=PacedModel(open=True), limits=ServerLimits(a_minute=2))

    def ask(key):
        return running.client.post("/v1/chat/completions", json=QUESTION, headers=bearer(key))

    assert [ask(first).status_code for _ in range(3)] == [200, 200, 429]
    refused = ask(first)
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    assert ask(second).status_code == 200
    (status,) = [one for one in running.service.ledger.status() if one.name == "ann"]
    assert status.questions == 2


def test_what_is_left_of_a_minute_comes_back_by_and_by():
    now = [0.0]
    rate = Rate(lambda: now[0])
    for _ in range(6):
        rate.take("ann", 6)
    with pytest.raises(Refusal) as refused:
        rate.take("ann", 6)
    assert refused.value.headers["Retry-After"] == "10"
    now[0] = 10.0
    rate.take("ann", 6)
    with pytest.raises(Refusal):
        rate.take("ann", 6)
    now[0] = 1e6  # no more than a minute's worth is kept
    for _ in range(6):
        rate.take("ann", 6)
    with pytest.raises(Refusal):
        rate.take("ann", 6)


def test_a_key_has_so_many_questions_at_a_time(serve, keys):
    key, model = keys.add("ann"), PacedModel()
    running = serve(keys, model=model, limits=ServerLimits(each=2))
    sent = [running.send(QUESTION, **bearer(key)) for _ in range(2)]
    until(lambda: running.admission.inside == 2)
    with (
        openai.OpenAI(base_url=f"{running.url}/v1", api_key=key, max_retries=0) as client,
        pytest.raises(openai.RateLimitError) as refused,
    ):
        client.chat.completions.create(**QUESTION)
    assert refused.value.code == "rate_limit_exceeded"
    model.open = True
    model.let(100)
    until(lambda: running.admission.inside == 0)
    for one in sent:
        one.close()
    answer = running.client.post("/v1/chat/completions", json=QUESTION, headers=bearer(key))
    assert answer.status_code == 200


def test_a_full_queue_says_when_to_come_back(serve):
    model = PacedModel()
    running = serve(model=model, limits=ServerLimits(together=1, waiting=2))
    sent = [running.send({**QUESTION, "stream": True}) for _ in range(3)]
    until(lambda: running.admission.inside == 3)
    refused = running.ask()
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "busy"
    assert refused.headers["retry-after"] == "5"
    assert "dpicl_inside 3.0" in running.client.get("/metrics").text
    model.let(100)
    until(lambda: running.admission.inside == 0)
    for one in sent:
        assert one.read().endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        one.close()


def test_the_stock_client_asks_again_when_it_was_too_early_and_not_when_the_budget_is_used_up(
    serve, keys, monkeypatch
):
    key, slept = keys.add("ann"), []
    running = serve(keys, model=PacedModel(open=True), budget=1e-6)
    monkeypatch.setattr("time.sleep", slept.append)
    with (
        openai.OpenAI(base_url=f"{running.url}/v1", api_key=key, max_retries=3) as client,
        pytest.raises(openai.RateLimitError),
    ):
        client.chat.completions.create(**QUESTION)
    assert slept == []
