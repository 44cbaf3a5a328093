"""A server killed under its clients loses no charge; a thousand times more in tests/stress."""

from __future__ import annotations

import os

import pytest

from tests.support.served_clients import POOR, charged, kill_under_clients

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


@pytest.mark.guard
@pytest.mark.heavy
def test_every_token_that_a_client_saw_is_in_the_ledger(tmp_path):
    seen = kill_under_clients(tmp_path, kills=3, clients=4, poor=20)
    paid = charged(tmp_path)
    assert seen.ends["cut"]
    assert sum(seen.tokens.values()) > 0
    assert {name for name, tokens in seen.tokens.items() if tokens > paid[name] + 1e-6} == set()
    assert paid[POOR] <= 20 + 1e-6


@pytest.mark.heavy
def test_the_check_sees_a_ledger_that_forgets_charges(tmp_path):
    seen = kill_under_clients(tmp_path, kills=1, clients=4, poor=20, fault="free")
    paid = charged(tmp_path)
    assert {name for name, tokens in seen.tokens.items() if tokens > paid[name] + 1e-6}
