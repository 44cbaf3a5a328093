"""`/mcp`: the tools that agents call, by the SDK's own client and by LangChain's."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.errors import LedgerError
from dpicl_rag.server import served_request, tool_server
from dpicl_rag.server.admission import ServerLimits
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.request_log import RequestLog
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.failing_engine import FailingEngine
from tests.support.paced_model import PacedModel, ReadingModel
from tests.support.tool_client import a_session, cancel, found, said
from tests.unit.server.conftest import SECRET, bearer
from tests.unit.server.test_server_ends import PER_TOKEN, spent, until
from tests.unit.server.test_server_memory import OFFICE

PRICE = epsilon_to_rho(8.0, 1e-5)
QUESTION = {"corpus": "notes", "question": "Where is the office?"}
OPEN = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
OPEN["params"] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(autouse=True)
def embedder(monkeypatch):
    monkeypatch.setattr("dpicl_rag.surveys.surveying.SentenceTransformerEmbedder", BucketEmbedder)


@pytest.fixture
def open_server(serve):
    """A server whose model says the first letters."""
    return serve(model=PacedModel(open=True), **PER_TOKEN)


def call(running, name, key=None, **arguments):
    """The result of one call in a session of its own."""

    async def ask():
        async with a_session(running.url, key or running.key) as (session, _):
            return await session.call_tool(name, arguments)

    return asyncio.run(ask())


def listed(running, key=None):
    async def look():
        async with a_session(running.url, key or running.key) as (session, _):
            return session.get_server_capabilities(), (await session.list_tools()).tools

    return asyncio.run(look())


def test_there_are_five_tools_and_nothing_else(open_server):
    able, tools = listed(open_server)
    assert [tool.name for tool in tools] == ["ask", "count", "tally", "survey", "budget"]
    assert (able.resources, able.prompts, able.logging, able.completions) == (None,) * 4
    for tool in tools:
        assert tool.inputSchema["properties"]["corpus"]["enum"] == ["notes"]
        assert tool.inputSchema["additionalProperties"] is False
        assert tool.outputSchema["type"] == "object"
        spends = tool.name != "budget"
        assert tool.annotations.readOnlyHint is not spends
        assert tool.annotations.destructiveHint is spends
        assert tool.annotations.idempotentHint is not spends
        assert tool.annotations.openWorldHint is False


def test_an_answer_has_the_public_fields_of_the_server(open_server):
    answer = found(call(open_server, "ask", **QUESTION))
    private = open_server.ask("Where is the office now?").json()["privacy"]
    assert answer.keys() == {"text", *private}
    assert answer["text"] == "abcdefgh"
    assert (answer["epsilon"], answer["delta"]) == (8.0, 1e-5)
    assert answer["stopped_by"] == "length"
    whole, held = spent(open_server)
    assert answer["rho"] == pytest.approx(whole / 2)
    assert held == 0


def test_what_was_answered_before_is_free_unless_it_is_asked_anew(serve):
    running = serve(model=OFFICE)
    first = found(call(running, "ask", **QUESTION))
    paid = spent(running)[0]
    assert first["supported"] is True
    again = found(call(running, "ask", **QUESTION))
    assert (again["text"], again["from_memory"], again["rho"]) == (first["text"], True, 0.0)
    assert spent(running)[0] == paid
    assert found(call(running, "ask", **QUESTION, fresh=True))["from_memory"] is False
    assert spent(running)[0] > paid


def test_numbers_are_those_of_the_endpoint(serve):
    running = serve(accounting="fixed")
    count = {"question": "Is it about an office?"}
    tally = {"question": "what?", "labels": ["office", "canteen"]}
    for kind, asked in {"count": count, "tally": tally, "survey": {}}.items():
        mine = found(call(running, kind, corpus="notes", **asked))
        body = {"model": "notes", "kind": kind, **asked}
        theirs = running.client.post("/v1/surveys", json=body).json()
        # The second comes from memory.
        assert (mine.pop("from_memory"), theirs.pop("from_memory")) == (False, True)
        cost = {name: mine.pop(name) for name in ("epsilon", "delta", "rho")}
        assert cost["rho"] == pytest.approx(PRICE)
        assert mine == {name: theirs[name] for name in mine}
        assert theirs.keys() == {*mine, *cost, "model", "kind"}


def test_the_budget_is_that_of_the_endpoint_and_free(open_server):
    before = spent(open_server)
    shown = found(call(open_server, "budget", corpus="notes"))
    assert [shown] == open_server.client.get("/v1/budget").json()["data"]
    assert spent(open_server) == before


def test_a_spent_budget_is_one_sentence_and_the_same_as_over_http(serve):
    running = serve(budget=1.5 * PRICE, **PER_TOKEN)
    assert not call(running, "ask", **QUESTION, fresh=True).isError
    refused = call(running, "count", **QUESTION)
    http = running.client.post(
        "/v1/surveys", json={"model": "notes", "kind": "count", "question": QUESTION["question"]}
    )
    assert refused.isError
    assert http.status_code == 429
    assert said(refused) == http.json()["error"]["message"]
    assert found(call(running, "budget", corpus="notes"))["answers_left"] == 0
    assert found(call(running, "budget"))["answers_left"] == 0  # there is one corpus


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("ask", {"corpus": "payroll", "question": "Who?"}, "there is no such corpus here"),
        ("ask", {"corpus": "public", "question": "Who?"}, "there is no such corpus here"),
        ("ask", {"corpus": "notes"}, "question: Field required"),
        ("ask", {"corpus": "notes", "question": " \x00 "}, "the question is empty"),
        ("ask", {"corpus": "notes", "question": "x" * 5000}, "question: String should have"),
        ("ask", {**QUESTION, "seed": 1}, "seed: Extra inputs are not permitted"),
        ("ask", {**QUESTION, "fresh": "yes"}, "fresh: Input should be a valid boolean"),
        ("count", {**QUESTION, "sample": 2}, "sample: Input should be less than or equal to 1"),
        ("tally", {**QUESTION, "labels": ["one", "one"]}, ""),
        ("survey", {"corpus": "notes", "by": "magic"}, "by: Input should be"),
        ("read", {"corpus": "notes"}, "there is no such tool; there are ask, count"),
    ],
    ids=[
        "a corpus that is not there",
        "the model without documents",
        "no question",
        "an empty question",
        "a long question",
        "an unknown argument",
        "a word for a truth value",
        "a rate above one",
        "a label twice",
        "an unknown reader",
        "an unknown tool",
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_and_costs_nothing(
    open_server, name, given, sentence
):
    result = call(open_server, name, **given)
    assert result.isError
    assert result.structuredContent is None
    assert said(result).startswith(sentence)
    assert 0 < len(said(result)) < 200
    assert "\n" not in said(result)
    assert spent(open_server) == (0, 0)


def test_an_engine_that_does_not_answer_is_one_sentence(serve, tiny_model):
    running = serve(model=FailingEngine(tiny_model, 0), accounting="fixed")
    assert said(call(running, "count", **QUESTION)) == (
        "this answer could not be given; ask again later"
    )
    running.service._model.left = 3  # an answer that has begun ends there, as over HTTP
    assert found(call(running, "ask", **QUESTION))["stopped_by"] == "unavailable"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("error", [RuntimeError(SECRET), LedgerError(SECRET), KeyError(SECRET)])
def test_nothing_of_an_error_inside_reaches_anybody(open_server, monkeypatch, caplog, error):
    def fail(*_):
        raise error

    caplog.set_level(0)
    monkeypatch.setattr(open_server.service, "stream", fail)
    monkeypatch.setattr(open_server.service, "run", fail)
    monkeypatch.setattr(open_server.service, "budgets", fail)
    for name, given in {"ask": QUESTION, "count": QUESTION, "budget": {"corpus": "notes"}}.items():
        result = call(open_server, name, **given)
        assert said(result) == "this answer could not be given; ask again later"
        assert SECRET not in result.model_dump_json()
    assert SECRET not in caplog.text


def test_a_key_sees_and_asks_its_own_corpora_alone(serve, keys):
    running = serve(keys, model=PacedModel(open=True))
    running.service.offer("payroll", running.service.corpora["notes"])
    ann, bob = keys.add("ann", corpora=["notes"]), keys.add("bob")
    none = keys.add("none", corpora=["elsewhere"])

    def corpora(key):
        schemas = [tool.inputSchema for tool in listed(running, key)[1]]
        return [schema["properties"]["corpus"]["enum"] for schema in schemas]

    assert corpora(bob) == [["notes", "payroll"]] * 5
    assert corpora(ann) == [["notes"]] * 5
    assert corpora(none) == []
    closed = call(running, "ask", ann, corpus="payroll", question="Who?")
    missing = call(running, "ask", ann, corpus="nowhere", question="Who?")
    assert said(closed) == said(missing)
    assert closed.isError
    assert not call(running, "ask", bob, corpus="payroll", question="Who?").isError
    assert {one.name for one in running.service.ledger.status() if one.kind == "caller"} == {"bob"}


def test_nobody_gets_in_without_a_key_or_from_a_page(open_server):
    post = open_server.client.post
    assert post("/mcp", json=OPEN, headers={"Authorization": "", **ACCEPT}).status_code == 401
    for origin in ("https://evil.example", open_server.url, "null"):
        refused = post("/mcp", json=OPEN, headers={"Origin": origin, **ACCEPT})
        assert refused.status_code == 403
        assert "pages of a browser" in refused.json()["error"]["message"]
    assert post("/mcp", json=OPEN, headers=ACCEPT).status_code == 200
    assert open_server.client.get("/mcp", headers=ACCEPT).status_code == 405
    large = {**OPEN, "params": {"x": "y" * 70_000}}
    assert post("/mcp", json=large, headers=ACCEPT).status_code == 413


def test_another_key_cannot_use_a_session_nor_end_it(serve, keys):
    running = serve(keys, model=PacedModel(open=True))
    ann, bob = keys.add("ann"), keys.add("bob")
    ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}

    def sent(method, key, session, **more):
        headers = {**bearer(key), **ACCEPT, "mcp-session-id": session}
        return running.client.request(method, "/mcp", headers=headers, **more)

    opened = running.client.post("/mcp", json=OPEN, headers={**bearer(ann), **ACCEPT})
    session = opened.headers["mcp-session-id"]
    assert sent("POST", ann, session, json=ping).status_code == 200
    for method, more in {"POST": {"json": ping}, "DELETE": {}}.items():
        other = sent(method, bob, session, **more)
        nowhere = sent(method, bob, "0" * 32, **more)
        assert other.status_code == 404
        assert (other.content, other.status_code) == (nowhere.content, nowhere.status_code)
    assert sent("POST", ann, session, json=ping).status_code == 200
    keys.remove("ann")
    assert sent("POST", ann, session, json=ping).status_code == 401
    # Who gets a key under the same name has another one.
    assert sent("POST", keys.add("ann"), session, json=ping).status_code == 404


def test_a_key_has_so_many_sessions_and_ended_ones_do_not_count(serve, keys, monkeypatch):
    monkeypatch.setattr(tool_server, "OF_A_KEY", 2)
    running = serve(keys, model=PacedModel(open=True))
    ann, bob = keys.add("ann"), keys.add("bob")

    def opened(key):
        return running.client.post("/mcp", json=OPEN, headers={**bearer(key), **ACCEPT})

    first, _ = opened(ann), opened(ann)
    refused = opened(ann)
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert opened(bob).status_code == 200
    session = {"mcp-session-id": first.headers["mcp-session-id"]}
    running.client.request("DELETE", "/mcp", headers={**bearer(ann), **session})
    until(lambda: opened(ann).status_code == 200)


def test_sessions_that_are_opened_at_once_are_counted_before_they_begin(serve, keys, monkeypatch):
    monkeypatch.setattr(tool_server, "OF_A_KEY", 2)
    running = serve(keys, model=PacedModel(open=True))
    headers = {**bearer(keys.add("ann")), **ACCEPT}
    manager = running.server.config.app.state.parts.tool_sessions._manager
    honest, inside, go_on = manager.handle_request, [], threading.Event()

    async def slow(*request):
        inside.append(1)
        await asyncio.to_thread(go_on.wait, 30)
        await honest(*request)

    monkeypatch.setattr(manager, "handle_request", slow)

    def opened(**more):
        return running.client.post("/mcp", json=OPEN, headers=headers, **more)

    with ThreadPoolExecutor(2) as pool:
        try:
            first = [pool.submit(opened) for _ in range(2)]
            until(lambda: len(inside) == 2)
            assert opened(timeout=5).status_code == 429
        finally:
            go_on.set()
        assert [one.result().status_code for one in first] == [200, 200]
    assert opened().status_code == 429
    session = {"mcp-session-id": first[0].result().headers["mcp-session-id"]}
    running.client.request("DELETE", "/mcp", headers={**headers, **session})
    until(lambda: opened().status_code == 200)


def test_limits_of_a_key_hold_for_tools(serve, keys):
    running = serve(keys, model=PacedModel(open=True), limits=ServerLimits(a_minute=2))
    ann = keys.add("ann")
    results = [call(running, "ask", ann, **QUESTION, fresh=True) for _ in range(3)]
    assert [result.isError for result in results] == [False, False, True]
    assert said(results[2]) == "this key has 2 questions a minute; ask again later"


def test_progress_is_told_in_tenths(serve, monkeypatch):
    monkeypatch.setattr(served_request, "TELLING", 0.01)
    model, told = ReadingModel(), []
    running = serve(model=model)
    model.steps.release(2)

    async def hear(part, whole, message):
        told.append((part, whole, message))
        model.steps.release()

    async def ask():
        async with a_session(running.url, running.key) as (session, _):
            return await session.call_tool("ask", QUESTION, progress_callback=hear)

    assert found(asyncio.run(ask()))["text"] == "abcdefgh"
    # Sevenths are rounded down to tenths, and what is told twice is told once.
    assert told[:5] == [(part, 1.0, None) for part in (0.1, 0.2, 0.4, 0.5, 0.7)]


def token_price(serve):
    running = serve(model=PacedModel(open=True), **PER_TOKEN)
    assert running.ask().json()["usage"]["completion_tokens"] == 8
    return spent(running)[0] / 8


@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", ["cancelled", "closed", "deleted"])
def test_a_call_that_ends_early_pays_for_what_was_released(serve, how):
    price, model, log = token_price(serve), PacedModel(), io.StringIO()
    running = serve(model=model, request_log=RequestLog(log), **PER_TOKEN)
    before = spent(running)[0]

    async def begun(at_least):
        while model.begun < at_least:
            await asyncio.sleep(0.01)

    async def leave():
        async with a_session(running.url, running.key) as (session, identifier):
            asking = asyncio.create_task(session.call_tool("ask", QUESTION))
            model.let(3)
            await begun(4)
            if how == "cancelled":
                await cancel(session, session._request_id - 1)
                with pytest.raises(Exception, match="Request cancelled"):
                    await asking
            elif how == "deleted":
                headers = {"mcp-session-id": identifier}
                await asyncio.to_thread(running.client.delete, "/mcp", headers=headers)
        asking.cancel()

    asyncio.run(leave())
    asyncio.run(asyncio.sleep(0.3))  # for the news to come, while the fourth draw is waiting
    assert running.admission.inside == 1
    model.let(100)
    until(lambda: running.admission.inside == 0)
    paid, held = spent(running)
    assert held == 0
    assert (paid - before) / price == pytest.approx(4, abs=1e-6)
    assert len(model.drawn) == 4
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    until(lambda: log.getvalue())
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["status"], line["tokens"]) for line in lines] == [(499, 4)]
    assert not call(running, "budget", corpus="notes").isError


def test_a_cancelled_session_goes_on(serve):
    model = PacedModel()
    running = serve(model=model, **PER_TOKEN)

    async def ask():
        async with a_session(running.url, running.key) as (session, _):
            asking = asyncio.create_task(session.call_tool("ask", QUESTION))
            while not model.begun:
                await asyncio.sleep(0.01)
            await cancel(session, session._request_id - 1)
            with pytest.raises(Exception, match="Request cancelled"):
                await asking
            model.let(1000)
            return await session.call_tool("ask", QUESTION)

    assert found(asyncio.run(ask()))["text"] == "abcdefgh"


def test_a_count_that_nobody_waits_for_holds_its_place_to_its_next_step(serve, monkeypatch):
    running = serve(accounting="fixed")
    run, begun, go_on = running.service.run, threading.Event(), threading.Event()

    def slow(*asked):
        begun.set()
        go_on.wait()
        return run(*asked)

    monkeypatch.setattr(running.service, "run", slow)

    async def ask():
        async with a_session(running.url, running.key) as (session, _):
            asking = asyncio.create_task(session.call_tool("count", QUESTION))
            await asyncio.to_thread(begun.wait)
            await cancel(session, session._request_id - 1)
            with pytest.raises(Exception, match="Request cancelled"):
                await asking

    asyncio.run(ask())
    assert running.admission.inside == 1
    go_on.set()
    until(lambda: running.admission.inside == 0)
    assert spent(running) == (0, 0)


def test_a_server_that_goes_down_ends_its_answers_and_tells_them(serve):
    model = PacedModel()
    running = serve(model=model, **PER_TOKEN)

    async def ask():
        async with a_session(running.url, running.key) as (session, _):
            await session.list_tools()  # else it asks for an answer's schema, of a closed port
            asking = asyncio.create_task(session.call_tool("ask", QUESTION))
            model.let(3)
            while model.begun < 4:
                await asyncio.sleep(0.01)
            running.server.handle_exit(15, None)
            late = await session.call_tool("ask", QUESTION)
            model.let(100)
            return late, await asking

    late, answer = asyncio.run(ask())
    assert said(late) == "the server is going down; ask again when it is back"
    assert (found(answer)["text"], found(answer)["stopped_by"]) == ("abcd", "length")
    running.thread.join(30)
    assert not running.thread.is_alive()


def test_the_log_has_a_line_for_every_call(serve, keys):
    log, ann = io.StringIO(), keys.add("ann")
    running = serve(
        keys,
        PRICE * 1.5,
        model=PacedModel(open=True),
        request_log=RequestLog(log),
        **PER_TOKEN,
    )
    call(running, "ask", ann, **QUESTION)
    call(running, "count", ann, **QUESTION)
    call(running, "ask", ann, corpus="payroll", question="Who?")
    call(running, "budget", ann, corpus="notes")
    until(lambda: log.getvalue().count("\n") == 4)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(one["caller"], one["corpus"], one["status"], one["tokens"]) for one in lines] == [
        ("ann", "notes", 200, 8),
        ("ann", "notes", 429, 0),
        ("ann", "", 404, 0),
        ("ann", "notes", 200, 0),
    ]


async def test_langchain_agents_get_them_by_its_adapters(open_server):
    from langchain_mcp_adapters.client import MultiServerMCPClient

    place = {"transport": "streamable_http", "url": f"{open_server.url}/mcp"}
    client = MultiServerMCPClient({"private": {**place, "headers": open_server.headers}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    assert tools.keys() == {"ask", "count", "tally", "survey", "budget"}
    message = await tools["ask"].ainvoke(
        {"type": "tool_call", "id": "1", "name": "ask", "args": QUESTION}
    )
    answer = message.artifact["structured_content"]
    assert answer["text"] == "abcdefgh"
    assert (message.status, json.loads(message.content[0]["text"])) == ("success", answer)
    budget_of = await tools["budget"].ainvoke({"corpus": "notes"})
    shown = open_server.service.budget("notes", Caller(None, "owner"))
    assert json.loads(budget_of[0]["text"]) == shown
