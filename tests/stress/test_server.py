"""The server under kills and under load.

What must hold after every kill, counting in tokens: what a client saw is at most what the ledger
says was paid, nothing is held, and no budget is overspent.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.support.served_clients import (
    POOR,
    a_server,
    ask,
    charged,
    kill_under_clients,
    make_callers,
)

pytestmark = [
    pytest.mark.stress,
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals"),
]


def say(figures: str) -> None:
    print(f"\n{figures}")  # noqa: T201 - the suite prints its figures


def test_two_hundred_kills_lose_no_charge_and_overspend_nothing(tmp_path: Path) -> None:
    begin = time.monotonic()
    seen = kill_under_clients(tmp_path, kills=200, clients=8, poor=400)
    paid = charged(tmp_path)
    lost = {name: seen.tokens[name] - paid[name] for name in seen.tokens}
    callers = [name for name in paid if name.startswith("client")]
    say(
        f"200 kills under 8 clients: {sum(seen.ends.values())} questions {dict(seen.ends)}; "
        f"{sum(seen.tokens[name] for name in callers)} tokens seen, "
        f"{sum(paid[name] for name in callers):.0f} paid, "
        f"lost charges {sum(more > 1e-6 for more in lost.values())}, "
        f"{POOR} paid {paid[POOR]:.0f} of 400; {time.monotonic() - begin:.0f} s"
    )
    assert seen.ends["cut"] > 100
    assert seen.ends["budget_exceeded"]
    assert max(lost.values()) < 1e-6


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads memory from /proc")
def test_a_thousand_questions_of_sixteen_clients_end_well_in_stable_memory(tmp_path: Path) -> None:
    keys, ends, sizes = make_callers(tmp_path, 16, poor=100), Counter(), []
    lock = threading.Lock()

    def go(number: int, key: str, url: str) -> None:
        with httpx.Client(base_url=url, timeout=120) as client:
            for question in range(63):
                found = ask(
                    client, key, ("fixed", "individual")[number % 2], stream=question % 2 == 0
                )
                with lock:
                    ends[found[1]] += 1
                    if sum(ends.values()) % 100 == 0:
                        sizes.append(resident(server_number))

    with a_server(tmp_path) as server:
        server_number = server.start()
        threads = [
            threading.Thread(target=go, args=(number, key, server.url))
            for number, key in enumerate(keys)
        ]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - begin
        assert server.end(server_number, signal.SIGTERM) == 0
    say(f"{sum(ends.values())} questions of 16 clients: {dict(ends)}; {seconds:.0f} s; MiB {sizes}")
    assert set(ends) <= {"whole", "budget_exceeded", "busy", "rate_limit_exceeded"}
    assert ends["whole"] > 900
    assert sizes[-1] < sizes[1] + 32
    charged(tmp_path)


def resident(process: int) -> int:
    """Memory of a process in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) // 1024
