"""Questions over HTTP, by plain requests and by OpenAI's own client."""

from __future__ import annotations

import json
from contextlib import closing

import openai
import pytest

from dpicl_rag import Corpus, Document
from dpicl_rag.errors import EngineUnavailableError
from dpicl_rag.language_models.readers.as_reader import as_reader
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.server.settings import CorpusSettings
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.paced_model import PacedModel
from tests.support.scripted_model import ScriptedModel
from tests.support.tiny_model import build_tiny_model, build_tiny_tokenizer
from tests.unit.server.conftest import SECRET


@pytest.fixture
def client(serve):
    running = serve()
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key, max_retries=0) as found:
        yield found


def test_models_are_corpora_and_the_public_one(client):
    assert [model.id for model in client.models.list()] == ["notes", "public"]


def test_one_model_is_told_as_in_the_list(client):
    assert client.models.retrieve("notes") == next(iter(client.models.list()))
    assert client.models.retrieve("public").id == "public"


def test_a_model_that_the_key_may_not_ask_looks_like_one_that_is_not_there(serve, keys):
    running = serve(keys)
    headers = {"Authorization": f"Bearer {keys.add('ann', corpora=['letters'])}"}
    closed, absent = (
        running.client.get(f"/v1/models/{name}", headers=headers) for name in ("notes", "letters")
    )
    assert closed.status_code == absent.status_code == 404
    assert closed.json() == absent.json()
    assert closed.json()["error"]["code"] == "model_not_found"
    assert running.client.get("/v1/models/notes").status_code == 401


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


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_from_memory_is_drawn_anew_where_that_is_asked_for(serve, stream):
    notes = [Document(f"The office is in Elm Lane. {n}", f"unit-{n}") for n in range(60)]
    model = ScriptedModel({"Elm": "It is in Elm Lane.", "": "I do not know."})
    running = serve(model=model, documents=notes, max_tokens=32)

    def ask(**more):
        answer = running.ask(stream=stream, **more)
        found = json.loads(answer.text.split("data: ")[-2]) if stream else answer.json()
        (status,) = running.service.ledger.status()
        return found["privacy"]["from_memory"], status.questions

    assert ask() == (False, 1)
    assert ask() == (True, 1)
    assert ask(dpicl={"fresh": False}) == (True, 1)
    assert ask(dpicl={"fresh": True}) == (False, 2)


@pytest.mark.parametrize(
    ("given", "place"),
    [({"fresh": "yes"}, "dpicl.fresh"), ({"new": True}, "dpicl.new"), (True, "dpicl")],
)
def test_another_extension_is_refused_by_name(serve, given, place):
    answer = serve().ask(dpicl=given)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, place)


def test_the_public_model_reads_nothing_and_spends_nothing(serve):
    running = serve()
    assert running.ask(model="public").status_code == 200
    (status,) = running.service.ledger.status()
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
        openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key, max_retries=3) as client,
        pytest.raises(openai.RateLimitError) as refused,
    ):
        client.chat.completions.create(model="notes", messages=messages)
    assert refused.value.code == "budget_exceeded"
    assert refused.value.type == "insufficient_quota"


def test_a_client_does_not_pay_by_itself_again_for_a_search_that_came_to_nothing(serve, tmp_path):
    asked = []

    def down(prompt):
        asked.append(prompt)
        raise EngineUnavailableError

    running = serve(model=ScriptedModel({"": "No."}), reading={"reader": as_reader(down)})
    messages = [{"role": "user", "content": "Where is the office?"}]
    with closing(Corpus.create("mail", tmp_path / "store", embedder=BucketEmbedder())) as corpus:
        corpus.add([Document(f"The office is in Elm Lane {n}.", f"unit {n}") for n in range(9)])
        running.service.offer("mail", CorpusSettings.create().served(corpus))
        with (
            openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key) as client,
            pytest.raises(openai.InternalServerError),
        ):
            client.chat.completions.create(model="mail", messages=messages)
    assert len(asked) == 1
    [spent] = [one.spent for one in running.service.ledger.status() if one.name == "mail"]
    assert 0 < spent < 0.1


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

    monkeypatch.setattr(running.service, "stream", broken)
    for stream in (False, True):
        answer = running.ask(stream=stream)
        assert answer.status_code == 500
        assert SECRET not in answer.text
        assert json.loads(answer.text)["error"]["code"] == "unavailable"


def test_a_client_asks_for_fewer_tokens_and_not_for_more(serve):
    running = serve(model=PacedModel(open=True))
    for field in ("max_tokens", "max_completion_tokens"):
        for wanted, given in ((3, 3), (10_000, 8)):
            answer = running.ask(f"Where? {field} {wanted}", **{field: wanted})
            assert answer.json()["usage"]["completion_tokens"] == given


def test_a_follow_up_is_asked_as_a_whole_question_and_remembered_by_it(serve):
    notes = [Document(f"The office of Ann is in Elm Lane. {n}", f"unit-{n}") for n in range(60)]
    written = "Who works in the office?"
    model = ScriptedModel({"Assistant:": written, "Elm": "Ann does.", "": "I do not know."})
    running = serve(model=model, documents=notes, max_tokens=32)
    turns = [
        {"role": "user", "content": "Where is the office?"},
        {"role": "assistant", "content": "The office is in Elm Lane."},
        {"role": "user", "content": "Who works there?"},
    ]
    found = running.ask(messages=turns).json()
    assert found["question"] == written
    first = json.loads(running.ask(messages=turns, stream=True).text.split("data: ")[1])
    assert first["question"] == written
    again = running.ask(written).json()  # in another conversation
    assert (again["question"], again["privacy"]["from_memory"]) == (written, True)
    (status,) = running.service.ledger.status()
    assert status.questions == 1


def test_the_public_model_reads_the_turns_as_they_are(serve, monkeypatch):
    from dpicl_rag import PrivateContextLLM

    asked, begin = [], PrivateContextLLM.begin

    def spy(self, request, documents, **more):
        asked.append((request.question, request.turns))
        return begin(self, request, documents, **more)

    monkeypatch.setattr(PrivateContextLLM, "begin", spy)
    turns = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "Shorter, please."},
    ]
    found = serve().ask(model="public", messages=turns)
    assert found.status_code == 200
    assert "question" not in found.json()
    assert asked == [("User: Hello\nAssistant: Hi\nUser: Shorter, please.", ())]


@pytest.mark.heavy
def test_a_model_whose_rows_share_passes_reads_the_turns_by_itself(serve):
    model = build_tiny_model(
        hidden_size=192, intermediate_size=576, num_attention_heads=6, num_key_value_heads=2
    )
    packing = TransformersModel(model._model, build_tiny_tokenizer())
    assert packing.shares_passes()
    running = serve(model=packing, documents=["The office is in Elm Lane."] * 3)
    turns = [
        {"role": "user", "content": "Where is the office?"},
        {"role": "assistant", "content": "In Elm Lane."},
        {"role": "user", "content": "And who works there?"},
    ]
    found = running.ask(messages=turns).json()  # which waits no longer than its client does
    assert found["question"] == turns[-1]["content"]  # what it writes is of no sense
