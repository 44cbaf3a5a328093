"""Agents of a server that is killed under them: they ask by MCP, cancel, hang up, and go on."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import anyio
from mcp.shared.exceptions import McpError

from dpicl_rag.answering.worker_threads import one_task
from tests.support import serving
from tests.support.served_clients import Seen, a_server, make_callers
from tests.support.tool_client import a_session, cancel, said


@dataclass
class SeenByAgents(Seen):
    """What agents saw.

    Attributes:
        kills: Of the server until now.
    """

    kills: int = 0

    @property
    def hung(self) -> int:
        """Calls, sessions and agents that did not come to an end."""
        return sum(number for end, number in self.ends.items() if end.startswith("hung"))


PATIENCE = 30
"""Seconds after which a call hangs."""


async def _call(session, corpus, mine, seen, name):
    """One call, which may be cancelled on the way; how it ended."""
    asked = {"corpus": corpus, "question": "Where is the office?", "fresh": True}
    killed = seen.kills
    async with one_task(session.call_tool("ask", asked)) as asking:
        if mine.random() < 0.4:
            await asyncio.wait([asking], timeout=mine.uniform(0, 0.15))
            if not asking.done():
                await cancel(session, session._request_id - 1)
        for _ in range(2 * PATIENCE):
            if (await asyncio.wait([asking], timeout=0.5))[0]:
                break
            if seen.kills > killed:  # the SDK's client waits for ever for a server that was killed
                return "cut"
        else:
            return "hung call"
        try:
            result = asking.result()
        except McpError:
            return "cancelled"
    if result.isError:
        return said(result)[:40]
    tokens = len(result.structuredContent["text"])
    for who in (corpus, name):
        seen.tokens[who] += tokens
    seen.one_more(tokens)
    return "whole"


async def _visit(url, key, corpus, mine, seen, name):
    """Some calls in a session, which may be left in the middle of one."""
    async with a_session(url, key) as (session, _):
        for _ in range(mine.randrange(1, 4)):
            async with one_task(_call(session, corpus, mine, seen, name)) as calling:
                if mine.random() < 0.2:  # hang up in the middle of it
                    await asyncio.wait([calling], timeout=mine.uniform(0, 0.1))
                    if not calling.done():
                        seen.ends["left"] += 1
                        return
                seen.ends[await calling] += 1


async def _agent(number, url, key, seen, over):
    mine = random.Random(number)
    while not over.is_set():
        corpus = mine.choice([*serving.SETTINGS])
        begin, killed = time.monotonic(), seen.kills
        visiting = asyncio.ensure_future(_visit(url, key, corpus, mine, seen, f"client-{number}"))
        done, _ = await asyncio.wait([visiting], timeout=5 * PATIENCE)
        if not done:
            seen.ends["hung visit"] += 1
            visiting.cancel()
            return
        if visiting.exception() is not None:
            waited = time.monotonic() - begin > PATIENCE
            seen.ends["hung visit" if waited and seen.kills == killed else "cut"] += 1
        await asyncio.sleep(mine.uniform(0, 0.02))


async def _kills(server, kills, seen, coins):
    for _ in range(kills):
        child, enough = server.start(), seen.now + coins.randrange(40)
        for _ in range(1000):
            await asyncio.sleep(coins.uniform(0, 0.02))
            if seen.now > enough:
                break
        await asyncio.to_thread(server.end, child, signal.SIGKILL)
        seen.kills += 1  # a call that began before the kill sees it
    child = server.start()
    await asyncio.sleep(2)
    return child


async def _all(server, keys, kills, seen):
    over = anyio.Event()
    agents = [
        asyncio.ensure_future(_agent(number, server.url, key, seen, over))
        for number, key in enumerate(keys)
    ]
    try:
        child = await _kills(server, kills, seen, random.Random(1))
    finally:
        over.set()
    await asyncio.wait(agents, timeout=6 * PATIENCE)
    seen.ends["hung agent"] += sum(not agent.done() for agent in agents)
    for agent in agents:
        if agent.done():
            agent.result()
        agent.cancel()
    return child


def kill_under_agents(folder: Path, kills: int, agents: int, poor: int, fault: str = "") -> Seen:
    """Kill a server again and again while agents call, and end the last one politely."""
    keys, seen = make_callers(folder, agents, poor), SeenByAgents()
    with a_server(folder, fault) as server:
        child = asyncio.run(_all(server, keys, kills, seen))
        assert server.end(child, signal.SIGTERM) == 0
    return seen
