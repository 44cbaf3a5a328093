"""OpenAI's responses: the same answers under another interface."""

from __future__ import annotations

import json

import openai
import pytest

from tests.support.paced_model import PacedModel

QUESTION = "Where is the office?"
SAID = "abcdefgh"


@pytest.fixture
def running(serve):
    return serve(model=PacedModel(open=True))


@pytest.fixture
def client(running):
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key, max_retries=0) as found:
        yield found


def respond(running, **body):
    return running.client.post("/v1/responses", json={"model": "notes", "input": QUESTION, **body})


def test_openai(client):
    response = client.responses.create(model="notes", input=QUESTION, instructions="Be brief.")
    assert response.output_text == SAID
    assert (response.status, response.incomplete_details.reason) == (
        "incomplete",  # the model ends no answer by itself
        "max_output_tokens",
    )
    assert response.usage.output_tokens == 8
    assert response.privacy["epsilon"] == 8.0
    assert response.question == QUESTION


def test_openai_streams(client):
    with client.responses.stream(model="notes", input=QUESTION) as stream:
        events = list(stream)
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(pieces) > 1
    final = events[-1].response
    assert "".join(pieces) == final.output_text == SAID
    assert final.privacy["epsilon"] == 8.0


def test_langchain(running):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        base_url=f"{running.url}/v1", api_key=running.key, model="notes", use_responses_api=True
    )
    assert model.invoke(QUESTION).text == SAID
    assert "".join(piece.text for piece in model.stream(QUESTION)) == SAID


def test_llama_index(running):
    from llama_index.llms.openai import OpenAIResponses

    model = OpenAIResponses(
        model="notes", api_base=f"{running.url}/v1", api_key=running.key, context_window=4096
    )
    assert model.complete(QUESTION).text == SAID
    assert "".join(piece.delta or "" for piece in model.stream_complete(QUESTION)) == SAID


def test_both_interfaces_give_the_same_answer_and_take_it_from_one_budget(running):
    chat, response = running.ask(), respond(running)
    assert response.json()["privacy"] == chat.json()["privacy"]
    assert response.headers["x-dpicl-epsilon"] == chat.headers["x-dpicl-epsilon"]
    (status,) = running.service.ledger.status()
    assert status.questions == 2


def test_a_conversation_is_asked_by_its_last_question(running):
    turns = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        # As a response has it.
        {
            **{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"},
            "content": [{"type": "output_text", "text": "In Elm Lane.", "annotations": []}],
        },
        {"role": "user", "content": "And who works there?"},
    ]
    found = respond(running, input=turns).json()
    assert found["question"] == "And who works there?"  # never two in one
    assert found["instructions"] == "Be brief."
    first = json.loads(
        respond(running, input=turns, stream=True).text.split("data: ")[1].split("\n")[0]
    )
    assert first["response"]["question"] == found["question"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("previous_response_id", "resp_1"),
        ("conversation", "conv_1"),
        ("tools", [{"type": "web_search"}]),
        ("background", True),
        ("include", ["message.output_text.logprobs"]),
        ("top_logprobs", 3),
        ("text", {"format": {"type": "json_object"}}),
        ("text", {"format": {"type": "json_object"}, "verbosity": "low"}),
        ("sources", True),
    ],
)
def test_what_is_not_given_is_refused_by_name(running, field, value):
    answer = respond(running, **{field: value})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)


@pytest.mark.parametrize(
    "given",
    [
        "",
        " ",
        [],
        [{"role": "assistant", "content": "a"}],
        [{"type": "function_call_output", "call_id": "1", "output": "a"}],
        [{"type": "item_reference", "id": "msg_1"}],
        [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}],
    ],
)
def test_input_without_a_question_is_refused(running, given):
    answer = respond(running, input=given)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("input")


def test_what_has_no_effect_is_named(running):
    answer = respond(running, temperature=0.2, store=True, reasoning={"effort": "low"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-dpicl-ignored"] == "reasoning, store, temperature"


@pytest.mark.parametrize("more", [{}, {"format": {"type": "text"}}])
def test_a_wish_for_a_short_text_is_no_wish_for_another_form(running, more):
    answer = respond(running, text={"verbosity": "low", **more})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-dpicl-ignored"] == "text"


def test_a_budget_that_is_used_up_is_said_in_openais_words(running, client):
    running.service.ledger.set_budget(corpus="notes", rho=0.0)
    with pytest.raises(openai.RateLimitError) as refused:
        client.responses.create(model="notes", input=QUESTION)
    assert refused.value.code == "budget_exceeded"


def test_an_answer_that_fails_on_the_way_ends_with_an_error(running, monkeypatch):
    def fail(self, *given):
        raise RuntimeError("swordfish")

    monkeypatch.setattr(type(running.service), "answer", fail)
    text = respond(running, stream=True).text
    assert "swordfish" not in text
    last = json.loads(text.split("data: ")[-1])
    assert last["type"] == "error"
    assert "later" in last["message"]


def test_the_public_model_talks_and_spends_nothing(running):
    found = respond(running, model="public").json()
    assert found["privacy"]["epsilon"] == 0
    assert "question" not in found
