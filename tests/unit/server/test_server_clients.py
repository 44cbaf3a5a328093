"""The clients that people have stream an answer, and Open WebUI's calls are understood."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import closing

import openai
import pytest

from tests.support.paced_model import PacedModel
from tests.unit.server.test_server_ends import until

QUESTION = "Where is the office?"
SAID = "abcdefgh"


@pytest.fixture
def running(serve, keys):
    found = serve(keys, model=PacedModel(open=True))
    found.key = keys.add("ann")
    return found


def streamed(pieces):
    """The whole text, which came in more than one piece."""
    pieces = [piece for piece in pieces if piece]
    assert len(pieces) > 1
    return "".join(pieces)


def test_openai(running):
    messages = [{"role": "user", "content": QUESTION}]
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key) as client:
        chunks = list(
            client.chat.completions.create(
                model="notes",
                messages=messages,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    assert streamed(c.choices[0].delta.content for c in chunks if c.choices) == SAID
    assert chunks[-1].usage.completion_tokens == 8
    assert chunks[-2].choices[0].finish_reason == "length"


async def test_openai_async(running):
    messages = [{"role": "user", "content": QUESTION}]
    async with openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key=running.key) as client:
        stream = await client.chat.completions.create(model="notes", messages=messages, stream=True)
        assert streamed([chunk.choices[0].delta.content async for chunk in stream]) == SAID


def test_langchain(running):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(base_url=f"{running.url}/v1", api_key=running.key, model="notes")
    assert streamed(chunk.content for chunk in model.stream(QUESTION)) == SAID
    assert model.invoke(QUESTION).content == SAID


def test_llama_index(running):
    from llama_index.llms import openai_like as like

    model = like.OpenAILike(
        api_base=f"{running.url}/v1", api_key=running.key, model="notes", is_chat_model=True
    )
    message = like.base.ChatMessage(role="user", content=QUESTION)
    assert streamed(response.delta for response in model.stream_chat([message])) == SAID
    assert model.complete(QUESTION).text == SAID


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl(running):
    body = json.dumps(
        {"model": "notes", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    )
    command = ["curl", "-sN", f"{running.url}/v1/chat/completions", "-d", body]
    headers = [f"Authorization: Bearer {running.key}", "Content-Type: application/json"]
    done = subprocess.run(
        [*command, *(word for header in headers for word in ("-H", header))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    events = [line[6:] for line in done.stdout.splitlines() if line.startswith("data: ")]
    assert events.pop() == "[DONE]"
    assert streamed(json.loads(e)["choices"][0]["delta"].get("content") for e in events) == SAID


TASKS = [
    # Open WebUI asks for these behind the user's back, of the task model.
    "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n"
    "### Chat History:\n<chat_history>\nUSER: Where is the office?\n</chat_history>",
    "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history.",
    "### Task:\nSuggest 3-5 relevant follow-up questions in JSON format.",
]


def post(running, **body):
    headers = {"Authorization": f"Bearer {running.key}"}
    return running.client.post("/v1/chat/completions", json=body, headers=headers)


def test_open_webui_lists_models_and_asks_for_titles_of_the_public_one_at_no_cost(running):
    headers = {"Authorization": f"Bearer {running.key}"}
    models = running.client.get("/v1/models", headers=headers).json()
    assert [model["id"] for model in models["data"]] == ["notes", "public"]
    assert models["object"] == "list"
    for task in TASKS:
        answer = post(
            running,
            model="public",
            messages=[{"role": "user", "content": task}],
            stream=False,
            max_completion_tokens=1000,
            metadata={"task": "title_generation", "chat_id": "1"},
        )
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-dpicl-ignored"] == "metadata"
        assert answer.json()["privacy"]["epsilon"] == 0
    assert all(one.questions == 0 for one in running.service.ledger.status())


def test_open_webui_asks_with_its_usual_body_and_its_stop_button_ends_the_answer(serve):
    model = PacedModel()
    running = serve(model=model)
    body = {
        "stream": True,
        "model": "notes",
        "messages": [
            {"role": "system", "content": "User Context:\n\n"},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hello! How can I help?"},
            {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
        ],
        "stream_options": {"include_usage": True},
        "temperature": 0.8,
        "top_p": 0.9,
        "frequency_penalty": 0.1,
        "stop": ["\nUser:"],
        "user": "ann",
    }
    rewriting = 2 * 64  # draws, of the question from what the user said, and from all
    with closing(running.send(body)) as sent:
        model.let(rewriting + 3)
        until(lambda: model.begun == rewriting + 4)
        assert b"text/event-stream" in sent.read_some()
    until(lambda: running.admission.inside == 1)
    model.let(100)
    until(lambda: running.admission.inside == 0)
    (status,) = running.service.ledger.status()
    assert status.questions == 1
    assert status.reserved == 0
    assert len(model.drawn) <= rewriting + 5
