"""A server killed under agents loses no charge; many more kills in tests/stress."""

from __future__ import annotations

import os

import pytest

from tests.support.served_clients import POOR, charged
from tests.support.tool_agents import kill_under_agents

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


def lost(seen, paid):
    return {name for name, tokens in seen.tokens.items() if tokens > paid[name] + 1e-6}


@pytest.mark.heavy
def test_every_answer_that_an_agent_saw_is_in_the_ledger(tmp_path):
    seen = kill_under_agents(tmp_path, kills=2, agents=3, poor=20)
    paid = charged(tmp_path)
    assert seen.hung == 0
    assert sum(seen.tokens.values()) > 0
    assert lost(seen, paid) == set()
    assert paid[POOR] <= 20 + 1e-6


@pytest.mark.heavy
def test_the_check_sees_a_ledger_that_forgets_charges(tmp_path):
    seen = kill_under_agents(tmp_path, kills=1, agents=3, poor=20, fault="free")
    assert lost(seen, charged(tmp_path))
