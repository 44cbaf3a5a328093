"""Agents at /mcp under kills: calls that are cancelled and left, and servers that die in them.

What must hold after every kill, counting in tokens: what an agent saw is at most what the ledger
says was paid, nothing is held, no budget is overspent, and no call hangs.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.served_clients import POOR, charged
from tests.support.tool_agents import kill_under_agents

pytestmark = [
    pytest.mark.stress,
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals"),
]

KILLS = int(os.environ.get("DPICL_RAG_KILLS", "100"))


def test_cancels_hang_ups_and_kills_lose_no_charge_and_hang_no_call(tmp_path: Path) -> None:
    begin = time.monotonic()
    seen = kill_under_agents(tmp_path, kills=KILLS, agents=6, poor=400)
    paid = charged(tmp_path)
    lost = {name: seen.tokens[name] - paid[name] for name in seen.tokens}
    callers = [name for name in paid if name.startswith("client")]
    print(  # noqa: T201 - the suite prints its figures
        f"\n{KILLS} kills under 6 agents: {dict(seen.ends)}; "
        f"{sum(seen.tokens[name] for name in callers)} tokens seen, "
        f"{sum(paid[name] for name in callers):.0f} paid, "
        f"lost charges {sum(more > 1e-6 for more in lost.values())}, "
        f"{POOR} paid {paid[POOR]:.0f} of 400; {time.monotonic() - begin:.0f} s"
    )
    assert seen.hung == 0
    assert seen.ends["cut"] > KILLS / 2
    assert seen.ends["cancelled"] > 0
    assert seen.ends["left"] > 0
    assert max(lost.values()) < 1e-6
