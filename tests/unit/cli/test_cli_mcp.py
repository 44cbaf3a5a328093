"""``dpicl-rag mcp``: tools of an agent over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest
from mcp import ClientSession
from mcp.shared.memory import create_client_server_memory_streams as memory_streams

from dpicl_rag import Document, Ledger
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.corpora import Corpus
from dpicl_rag.language_models import defaults
from dpicl_rag.server import tool_server
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.paced_model import PacedModel
from tests.support.tool_client import a_session, cancel, found, said
from tests.unit.cli.test_cli_serve import served

ROOT = Path(__file__).parents[3]
PRICE = epsilon_to_rho(8.0, 1e-5)
QUESTION = {"corpus": "notes", "question": "Where is the office?"}
PER_TOKEN = ("--accounting", "fixed", "--unsupported", "ignore")
MESSAGES = (
    {
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": QUESTION}},
)


@pytest.fixture
def folder(tmp_path):
    """Two corpora, and a budget for each."""
    for name in ("notes", "payroll"):
        with closing(Corpus.create(name, tmp_path / "store", embedder=BucketEmbedder())) as corpus:
            texts = [f"The office is in Elm Lane {n}." for n in range(30)]
            corpus.add([Document(text, f"unit {n}") for n, text in enumerate(texts)])
    set_budget(tmp_path, 1e6)
    return tmp_path


def set_budget(folder, rho):
    with Ledger(folder / "ledger.sqlite") as ledger:
        for name in ("notes", "payroll"):
            ledger.set_budget(corpus=name, rho=rho)


def spent(folder, name="notes"):
    with Ledger(folder / "ledger.sqlite") as ledger:
        (status,) = [one for one in ledger.status() if one.name == name]
    return status.spent, status.reserved


SMALL = "small_cli"
"""Says letters of the alphabet, and cannot count."""

COUNTS = "noisy_cli"


def command(folder, *options, model=SMALL):
    places = {"--path": "store", "--ledger": "ledger.sqlite"}
    words = [word for name, file in places.items() for word in (name, str(folder / file))]
    return {
        "command": sys.executable,
        "args": ["-m", f"tests.support.{model}", "mcp", *words, *PER_TOKEN, *options],
        "env": {**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder)},
        "cwd": str(ROOT),
    }


@pytest.fixture
def as_agent(folder, cli, monkeypatch, interruptible):
    """Run the command here, with an agent in the place of its standard input and output."""
    monkeypatch.setattr(defaults, "default_model", lambda: PacedModel(open=True))

    def run(work, *options):
        failures = []

        @asynccontextmanager
        async def pipes(stdout):
            async with memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:

                async def act():
                    read, write = ours
                    async with write, ClientSession(read, write) as session:
                        await session.initialize()
                        try:
                            await work(session)
                        except Exception as failure:  # which the command would hide
                            failures.append(failure)

                tasks.start_soon(act)
                yield theirs

        monkeypatch.setattr(tool_server, "stdio_server", pipes)
        stdout = os.dup(1)  # the command gives it to the protocol
        try:
            done = cli(*command(folder, *options)["args"][2:])
        finally:
            os.dup2(stdout, 1)
            os.close(stdout)
        assert failures == []
        assert done.exit_code == 0, done.output

    return run


def started(folder, *options, **more):
    """The process, and a function that sends it messages."""
    how = command(folder, *options, **more)
    process = subprocess.Popen(
        [how["command"], *how["args"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=how["env"],
        cwd=how["cwd"],
    )

    def send(message):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()

    return process, send


@pytest.mark.heavy  # on a busy machine
def test_an_agent_asks_and_counts_and_looks_at_the_budget(
    folder, as_agent, monkeypatch, tiny_model
):
    monkeypatch.setattr(defaults, "default_model", lambda: tiny_model)  # which can count

    async def work(session):
        tools = (await session.list_tools()).tools
        answer = found(await session.call_tool("ask", QUESTION))
        paid, held = spent(folder)
        assert (paid, held) == (pytest.approx(answer["rho"]), 0)
        count = found(await session.call_tool("count", QUESTION))
        assert count["yes"]["low"] <= count["yes"]["units"] <= count["yes"]["high"]
        labels = {**QUESTION, "labels": ["office", "canteen"]}
        tally = found(await session.call_tool("tally", labels))
        assert tally["counts"].keys() == {"office", "canteen"}
        assert tally["total"]["low"] <= 30 <= tally["total"]["high"]  # all units are asked
        survey = found(await session.call_tool("survey", {"corpus": "notes"}))
        assert survey["total"]["low"] <= 30 <= survey["total"]["high"]
        budget = found(await session.call_tool("budget", {"corpus": "notes"}))
        assert budget["scopes"][0]["spent_rho"] == pytest.approx(paid + 3 * PRICE)
        assert [tool.name for tool in tools] == ["ask", "count", "tally", "survey", "budget"]
        assert tools[0].inputSchema["properties"]["corpus"]["enum"] == ["notes", "payroll"]

    as_agent(work, "--max-tokens", "8")
    assert spent(folder, "payroll") == (0, 0)


def test_a_spent_budget_and_other_corpora_are_refused_in_a_sentence(folder, as_agent):
    set_budget(folder, 1.5 * PRICE)

    async def work(session):
        first = await session.call_tool("ask", QUESTION)
        refused = await session.call_tool("count", QUESTION)
        closed = await session.call_tool("ask", {**QUESTION, "corpus": "payroll"})
        assert not first.isError
        assert refused.isError
        assert "budget" in said(refused)
        assert closed.isError
        assert said(closed).startswith("there is no such corpus here")

    as_agent(work, "--corpus", "notes")


def test_a_caller_pays_and_has_a_memory_that_other_commands_have_too(folder, as_agent, cli):
    with Ledger(folder / "ledger.sqlite") as ledger:
        ledger.set_budget(caller="agent", rho=100.0)
    places = ("--path", str(folder / "store"), "--ledger", str(folder / "ledger.sqlite"))
    words = ("--caller", "agent", "--json", *places)
    first = json.loads(cli("survey", "--corpus", "notes", *words).stdout)
    surveys = []

    async def work(session):
        surveys.append(found(await session.call_tool("survey", {"corpus": "notes"})))

    as_agent(work, "--caller", "agent")
    assert (surveys[0]["from_memory"], surveys[0]["rho"]) == (True, 0.0)
    assert surveys[0]["themes"] == first["themes"]
    assert spent(folder, "agent")[0] == pytest.approx(PRICE)
    as_agent(work, "--caller", "agent", "--no-memory")
    as_agent(work)  # nor does another caller have it
    assert [survey["from_memory"] for survey in surveys] == [True, False, False]


def test_a_cancelled_answer_ends_at_its_token(folder, as_agent, monkeypatch):
    model = PacedModel(open=True, seconds=0.02)
    monkeypatch.setattr(defaults, "default_model", lambda: model)

    async def work(session):
        asking = asyncio.create_task(session.call_tool("ask", QUESTION))
        while not spent(folder)[0]:
            await asyncio.sleep(0.02)
        await cancel(session, session._request_id - 1)
        with pytest.raises(Exception, match="Request cancelled"):
            await asking
        # The next call comes after its end.
        found(await session.call_tool("survey", {"corpus": "payroll"}))
        paid, held = spent(folder)
        assert held == 0
        assert 0 < paid < PRICE / 2

    as_agent(work, "--max-tokens", "500")


@pytest.mark.heavy
@pytest.mark.parametrize("how", ["closed", "killed"])
def test_who_goes_pays_for_what_was_released(folder, how):
    process, send = started(folder, "--max-tokens", "500")
    with process:
        for message in MESSAGES:
            send(message)
        assert json.loads(process.stdout.readline())["id"] == 0
        while not spent(folder)[0]:
            pass
        if how == "killed":
            process.kill()
        process.stdin.close()
        status = process.wait(60)
        assert process.stdout.read() == ""
        assert "Traceback" not in process.stderr.read()
    assert status == (0 if how == "closed" else -9)
    paid, held = spent(folder)
    assert held == 0
    assert 0 < paid < PRICE / 2


@pytest.mark.heavy
def test_what_libraries_print_does_not_reach_the_protocol(folder):
    process, send = started(folder, "--max-tokens", "4", model=COUNTS)
    with process:
        for message in MESSAGES:
            send(message)
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stdout.read() == ""
        assert process.stderr.read().count("noise") == 2
    assert [answer["id"] for answer in answers] == [0, 1]
    assert answers[1]["result"]["structuredContent"]["rho"] > 0


@pytest.mark.heavy
def test_what_is_no_message_ends_nothing(folder):
    process, send = started(folder)
    with process:
        send(MESSAGES[0])
        process.stdout.readline()
        process.stdin.write("not JSON\n")
        send({"method": "notifications/initialized"})
        send({"id": 2, "method": "resources/list"})
        send({"id": 3, "method": "ping"})
        said = {}
        while 3 not in said:
            answer = json.loads(process.stdout.readline())
            said[answer.get("id")] = answer
        process.stdin.close()
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
    assert said[2]["error"]["message"] == "Method not found"
    assert said[3]["result"] == {}


def test_without_a_corpus_it_says_so_in_a_line(cli):
    done = cli("mcp")
    assert done.exit_code == 1
    assert done.output.startswith("error: there is no corpus to ask")
    assert done.output.count("\n") == 1


@pytest.mark.heavy
async def test_a_server_that_is_ended_tells_a_call_what_it_has(tmp_path, monkeypatch):
    paid = set()
    # Longer than the SDK's streams wait to be cut, if they are let.
    monkeypatch.setenv("SECONDS_A_TOKEN", "1.5")
    options = ("--max-tokens", "500", *PER_TOKEN)
    with served(tmp_path, *options) as (process, url, headers):
        key = headers["Authorization"].removeprefix("Bearer ")
        async with a_session(url.rstrip("/"), key) as (session, _):
            await session.list_tools()  # the SDK does, after an answer, where nobody did before
            asking = asyncio.create_task(session.call_tool("ask", QUESTION))
            while len(paid) < 3:  # nothing, for the number of units, and for a token
                paid.add(spent(tmp_path)[0])
                await asyncio.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            answer = found(await asyncio.wait_for(asking, 60))
        assert process.wait(60) == 0
    assert answer["stopped_by"] == "length"
    assert answer["text"] in ("a", "ab", "abc")
    assert spent(tmp_path) == (pytest.approx(answer["rho"]), 0)


@pytest.mark.heavy
async def test_langchain_agents_get_them_by_its_adapters(folder):
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    how = {**command(folder, "--max-tokens", "8"), "transport": "stdio"}
    async with MultiServerMCPClient({"private": how}).session("private") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        message = await tools["ask"].ainvoke(
            {"type": "tool_call", "id": "1", "name": "ask", "args": QUESTION}
        )
        assert message.artifact["structured_content"]["text"] == "abcdefgh"
        missing = {"type": "tool_call", "id": "2", "name": "budget", "args": {"corpus": "none"}}
        refused = await tools["budget"].ainvoke(missing)
        assert refused.status == "error"
        assert "there is no such corpus" in str(refused.content)
