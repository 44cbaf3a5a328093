"""Over MCP neighbouring corpora differ in nothing but the answer, and no secret leaves.

A day of an agent is recorded: every message that its client gets, in order, with statuses and
headers of HTTP: tools, answers, numbers, progress, refusals, a cancelled call, an engine that stops
answering, metrics and the log, and all that the process logs, warns of and prints.
"""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import replace

import httpx
import pytest

from dpicl_rag import Document
from dpicl_rag.auditing.channels import differences
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.results import Estimate
from dpicl_rag.server import served_request, tools
from dpicl_rag.server.service import Service
from dpicl_rag.server.tools import Tools
from dpicl_rag.surveys.survey_results import PrivateCount
from tests.integrations import test_server_channels as server_channels
from tests.integrations.leak_probe import SECRET, LeakProbe, SpyModel
from tests.integrations.test_server_channels import DOCUMENTS, KINDS, QUESTION, Comparison, show
from tests.support.around import Around
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.tool_client import a_session, cancel

# Sessions have names, and pings of idle streams a time.
_CHANCE = re.compile(r"\b[0-9a-f]{32}\b|: ping - [^\\\r\n\"]*")


class AgentComparison(Comparison):
    def see(self, place, value):
        # What the test's own clients log, and uvicorn of their connections, comes by chance.
        if place.startswith(("log mcp.client", "log asyncio")):
            return
        super().see(place, _CHANCE.sub("*", value if isinstance(value, str) else repr(value)))


class Told(httpx.AsyncHTTPTransport):
    """Every response as it came, in the channels."""

    def __init__(self, channels):
        super().__init__()
        self._channels = channels

    async def handle_async_request(self, request):
        if request.method == "GET":  # the server has none, and the client asks again by its clock
            return httpx.Response(405, request=request)
        response = await super().handle_async_request(request)
        given = {name: text for name, text in response.headers.items() if name != "date"}
        self._channels.see(
            "http", f"{request.method} {response.status_code} {sorted(given.items())}"
        )
        return response


async def visit(server, key, poor, channels, brief=False):
    said = []

    async def tell(part, whole, message):
        channels.see("progress", f"{part} {whole} {message}")

    async def call(session, name, **arguments):
        result = await session.call_tool(name, arguments, progress_callback=tell)
        said.append((name, result.isError))
        channels.see(f"{name} {len(said)}", result.model_dump_json())

    notes = {"corpus": "notes", "question": QUESTION}
    async with a_session(server.url, key, transport=Told(channels)) as (session, _):
        channels.see("tools", (await session.list_tools()).model_dump_json())
        await call(session, "budget", corpus="notes")
        await call(session, "ask", **notes)
        await call(session, "ask", **notes, fresh=True)
        await call(session, "ask", corpus="notes", question="Who has zingpocket 1?")
        await call(session, "ask", corpus="payroll", question=QUESTION)
        await call(session, "ask", corpus="notes")
        await call(session, "ask", corpus="notes", question="long " * 800)
        await call(session, "nothing", **notes)
        await call(session, "survey", corpus="notes")
        await call(session, "budget", corpus="notes")
    if not brief:
        await trouble(server, key, poor, channels, call)
    await asyncio.sleep(0.2)  # for the end of the last request
    for path in ("/metrics", "/v1/memory"):
        headers = {"Authorization": f"Bearer {key}"}
        answer = await asyncio.to_thread(server.client.get, path, headers=headers)
        channels.see(path, answer.text)
    channels.see("order", said)
    return said


async def trouble(server, key, poor, channels, call):
    """A budget ends, a call is cancelled, the engine stops answering."""
    notes = {"corpus": "notes", "question": QUESTION}
    async with a_session(server.url, poor, transport=Told(channels)) as (session, _):
        for number in range(2):
            await call(session, "ask", corpus="notes", question=f"Who is patient {number}?")
        await call(session, "budget", corpus="notes")
    async with a_session(server.url, key, transport=Told(channels)) as (session, _):
        model = server.service._model
        model.go_on.clear()
        model.reading.clear()
        asking = asyncio.create_task(session.call_tool("ask", {**notes, "fresh": True}))
        assert await asyncio.to_thread(model.reading.wait, 30)
        await cancel(session, session._request_id - 1)
        with pytest.raises(Exception, match="Request cancelled"):
            await asking
        model.go_on.set()
        while server.admission.inside:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # for the log's line
        model.left = 3  # the engine stops answering
        await call(session, "ask", corpus="notes", question="Is it mended?")
        await call(session, "count", corpus="notes", question="Is it mended?")
        await call(session, "budget", corpus="notes")


class PatientModel(Around):
    """Waits in its reading for a test."""

    def __init__(self, model):
        super().__init__(model)
        self.reading, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def read(self, *arguments, **options):
        self.reading.set()
        self.go_on.wait()
        return self._model.read(*arguments, **options)


@pytest.fixture(scope="module", autouse=True)
def held_fixed():
    """What is drawn of numbers, and the time that reading takes."""
    run = Service.run
    few = Estimate(3, 1, 5)

    def same(self, *asked):
        found = run(self, *asked)
        if isinstance(found, PrivateCount):
            return replace(found, yes=few)
        return replace(found, themes=(), others=few, total=few)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Service, "run", same)
        patch.setattr("dpicl_rag.surveys.surveying.SentenceTransformerEmbedder", BucketEmbedder)
        patch.setattr(served_request, "TELLING", 600.0)
        yield


def told(folder, documents, model, brief=False):
    channels = AgentComparison(folder)
    with (
        channels.listening(),
        server_channels.opened(folder, documents, PatientModel(model)) as (server, key, [poor]),
    ):
        asyncio.run(visit(server, key, poor, channels, brief))
    return channels


@pytest.fixture(scope="module")
def base(held_fixed, tiny_model, tmp_path_factory):
    """What is told of the corpus beside which the others are."""
    return told(tmp_path_factory.mktemp("base") / "day", DOCUMENTS, tiny_model)


@pytest.mark.heavy
def test_the_day_has_answers_and_refusals(base):
    [said] = base.told["order"]
    assert said.count("False") >= 9, said
    assert said.count("True") >= 5, said


@pytest.mark.parametrize("documents", KINDS)
def test_neighbours_differ_in_nothing_but_the_answer(documents, base, tiny_model, tmp_path):
    other = told(tmp_path / "other", documents, tiny_model)
    if differences(base, other):  # the first day also has what a process tells only once
        base = told(tmp_path / "base", DOCUMENTS, tiny_model)
    assert not {place: show(base, other, place) for place in differences(base, other)}


def a_field_with_a_count(monkeypatch):
    stream, count = Service.stream, []
    privacy = served_request.privacy

    def counted(self, *asked):
        count[:] = [len(self.texts)]
        return stream(self, *asked)

    monkeypatch.setattr(Service, "stream", counted)
    monkeypatch.setattr(
        served_request, "privacy", lambda answer: {**privacy(answer), "agreeing": count[0]}
    )


def an_error_that_quotes(monkeypatch):
    budgets = Service.budgets

    def quoting(self, *asked):
        if len(self.texts) > 3:
            raise ConfigurationError(self.texts[-1])
        return budgets(self, *asked)

    monkeypatch.setattr(Service, "budgets", quoting)


def progress_by_units(monkeypatch):
    ask = Tools._ask

    async def telling(self, call, given):
        await call.tell(1 / len(self._service.texts))
        return await ask(self, call, given)

    monkeypatch.setattr(tools, "_KINDS", {**tools._KINDS})
    monkeypatch.setitem(tools._KINDS, "ask", replace(tools._KINDS["ask"], run=telling))


def a_description_with_a_count(monkeypatch):
    listed = Tools.listed

    def counting(self, caller):
        found = listed(self, caller)
        found[0].description += f" There are {len(self._service.texts)}."
        return found

    monkeypatch.setattr(Tools, "listed", counting)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("fault", "place"),
    [
        (a_field_with_a_count, "ask 2"),
        (an_error_that_quotes, "budget 1"),
        pytest.param(progress_by_units, "progress", marks=pytest.mark.heavy),
        pytest.param(a_description_with_a_count, "tools", marks=pytest.mark.heavy),
        pytest.param(
            server_channels.a_log_line_with_the_documents,
            "log some.library",
            marks=pytest.mark.heavy,
        ),
        pytest.param(server_channels.a_metric_of_the_search, "/metrics", marks=pytest.mark.heavy),
    ],
)
def test_the_comparison_sees_planted_faults(tiny_model, tmp_path, monkeypatch, fault, place):
    fault(monkeypatch)
    base = told(tmp_path / "base", DOCUMENTS, tiny_model, brief=True)
    more = [*DOCUMENTS, Document("The patient has zingpocket 4.", "one more")]
    assert place in differences(base, told(tmp_path / "more", more, tiny_model, brief=True))


def probed(folder, model):
    probe = LeakProbe()
    documents = [Document(f"The patient {SECRET} has zingpocket {n}.", f"{n}") for n in range(3)]
    spy = SpyModel(model)
    with (
        probe.listening(),
        server_channels.opened(folder, documents, PatientModel(spy)) as (server, key, [poor]),
    ):
        said = asyncio.run(visit(server, key, poor, probe))
    assert ("ask", False) in said
    assert any(SECRET in prompt for prompt in spy.prompts)
    return probe


def test_a_secret_reaches_the_model_and_nothing_else(tiny_model, tmp_path):
    assert probed(tmp_path / "day", tiny_model).findings == []


@pytest.mark.heavy
def test_the_probe_sees_a_message_that_quotes_a_document(tiny_model, tmp_path, monkeypatch):
    def quoting(self, *asked):
        raise ConfigurationError(self.texts[-1])

    monkeypatch.setattr(Service, "budgets", quoting)
    assert "budget 1" in probed(tmp_path / "day", tiny_model).findings
