"""Random mailboxes in random parts, with one unit and without; see tests/support/mailboxes.py."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest

from tests.support.mailboxes import check_neighbours, check_orders

pytestmark = pytest.mark.stress

SECONDS = float(os.environ.get("DPICL_RAG_FUZZ_SECONDS", "60"))


@pytest.mark.parametrize("check", [check_orders, check_neighbours])
def test_random_mailboxes(check: Callable[[random.Random], None]) -> None:
    end, seed = time.monotonic() + SECONDS, 1000
    while time.monotonic() < end:
        check(random.Random(seed))
        seed += 1
    print(f"\n{seed - 1000} mailboxes, {check.__name__}")  # noqa: T201 - the suite prints its figures
