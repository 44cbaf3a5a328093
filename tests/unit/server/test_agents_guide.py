"""docs/agents.md: its examples are called, its lines for programs start what they say."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from dpicl_rag.server.tool_server import IDLE, OF_A_KEY
from tests.support.command_line import run_command
from tests.support.paced_model import PacedModel

GUIDE = (Path(__file__).parents[3] / "docs" / "agents.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.M | re.S)


def test_the_example_of_langchain_gets_the_tools_of_the_table(serve):
    running = serve(model=PacedModel(open=True))
    [example] = blocks("python")
    names = {}
    exec(example, names)
    tools = asyncio.run(names["tools_of"](running.url, running.key))
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", GUIDE, re.M))
    assert {tool.name: [*tool.args] for tool in tools} == {
        name: ["corpus", *re.findall(r"`(\w+)`", arguments)] for name, arguments in rows.items()
    }


def test_lines_for_programs_are_json_and_name_commands_and_addresses_that_are_there():
    ways = [*blocks("json")]
    assert len(ways) == 3
    shown = run_command("mcp", "--help", env={"COLUMNS": "200"}).output
    for way in ways:
        [[place]] = [servers.values() for servers in json.loads(way).values()]
        if "url" in place:
            assert place["url"].endswith("/mcp")
            assert place["headers"].keys() == {"Authorization"}
            continue
        assert (place["command"], place["args"][0]) == ("dpicl-rag", "mcp")
        options = [word for word in place["args"] if word.startswith("--")]
        assert all(option in shown for option in options)
    named = re.findall(r"`(--[a-z-]+)", GUIDE[GUIDE.index("`dpicl-rag mcp` takes") :])
    assert len(named) > 6
    assert all(option in shown for option in named)


def test_the_limits_that_it_names_are_there():
    assert f"A key has {OF_A_KEY}\nsessions" in GUIDE
    assert f"asked for {IDLE / 60:g} minutes" in GUIDE
