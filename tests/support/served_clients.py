"""Clients of a server that is killed under them, and what they and the ledger say afterwards."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from dpicl_rag import Ledger
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.server.api_keys import KeyFile
from tests.support import serving

ROOT = Path(__file__).parents[2]
EPSILON, DELTA = 8.0, 1e-5  # the defaults of an answer
TOKEN = epsilon_to_rho(EPSILON, DELTA) / serving.MAX_TOKENS
POOR = "client-0"
"""A caller whose budget ends on the way."""


@dataclass
class Seen:
    """What clients saw, by caller and by corpus.

    Attributes:
        tokens: Letters that came; each is one token.
        ends: How questions ended, in words.
        now: Tokens that have come until now, of all.
    """

    tokens: Counter = field(default_factory=Counter)
    ends: Counter = field(default_factory=Counter)
    now: int = 0

    def one_more(self, tokens: int) -> None:
        """Count what came; a race of two threads does no harm."""
        self.now += tokens


def ask(
    client: httpx.Client,
    key: str,
    corpus: str,
    *,
    stream: bool,
    told: Callable[[int], None] = lambda _: None,
) -> tuple[int, str]:
    """How many tokens came, and how it ended."""
    messages = [{"role": "user", "content": "Where is the office?"}]
    body = {"model": corpus, "messages": messages, "stream": stream}
    headers = {"Authorization": f"Bearer {key}"}
    tokens = 0
    try:
        with client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            if answer.status_code != 200:
                return 0, json.loads(answer.read())["error"]["code"]
            if not stream:
                tokens = len(json.loads(answer.read())["choices"][0]["message"]["content"])
                told(tokens)
                return tokens, "whole"
            for line in answer.iter_lines():
                if line == "data: [DONE]":
                    return tokens, "whole"
                if line.startswith("data: "):
                    event = json.loads(line[6:])
                    if "error" in event:
                        return tokens, event["error"]["code"]
                    more = len(event["choices"][0]["delta"].get("content") or "")
                    tokens += more
                    told(more)
        return tokens, "cut"
    except httpx.HTTPError:
        return tokens, "cut"


class Server:
    """The process, and its server of the moment."""

    def __init__(self, process: subprocess.Popen) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{self._said()}"

    def start(self) -> int:
        """The number of a new server's process."""
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._said()

    def end(self, server: int, how: int) -> int:
        """End it; its status as ``os.wait`` has it."""
        os.kill(server, how)
        return self._said()

    def _said(self) -> int:
        return int(self._process.stdout.readline())


@contextmanager
def a_server(folder: Path, fault: str = ""):
    """One that can be started."""
    command = [sys.executable, "-m", "tests.support.serving", str(folder), *([fault] * bool(fault))]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with process:
        try:
            yield Server(process)
        finally:
            process.kill()


def make_callers(folder: Path, number: int, poor: int) -> list[str]:
    """Keys, and budgets of callers: one can pay few tokens."""
    keys = KeyFile(folder / "keys.sqlite")
    with Ledger(folder / "ledger.sqlite") as ledger:
        for corpus in serving.SETTINGS:
            ledger.set_budget(corpus=corpus, rho=1e6)
        ledger.set_budget(caller=POOR, rho=poor * TOKEN)
        for one in range(1, number):
            ledger.set_budget(caller=f"client-{one}", rho=1e6)
    found = [keys.add(f"client-{one}") for one in range(number)]
    keys.close()
    return found


def kill_under_clients(folder: Path, kills: int, clients: int, poor: int, fault: str = "") -> Seen:
    """Kill a server again and again while clients ask, and end the last one politely."""
    keys, seen, over = make_callers(folder, clients, poor), Seen(), threading.Event()
    coins = random.Random(1)

    def go(number: int, key: str, url: str) -> None:
        mine = random.Random(number)
        with httpx.Client(base_url=url, timeout=20) as client:
            while not over.is_set():
                corpus = mine.choice([*serving.SETTINGS])
                tokens, end = ask(
                    client, key, corpus, stream=mine.random() < 0.7, told=seen.one_more
                )
                with lock:
                    seen.tokens[corpus] += tokens
                    seen.tokens[f"client-{number}"] += tokens
                    seen.ends[end] += 1
                time.sleep(mine.uniform(0, 0.02))

    lock = threading.Lock()
    with a_server(folder, fault) as server:
        threads = [
            threading.Thread(target=go, args=(number, key, server.url))
            for number, key in enumerate(keys)
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in range(kills):
                child, enough = server.start(), seen.now + coins.randrange(40)
                for _ in range(1000):
                    time.sleep(coins.uniform(0, 0.02))
                    if seen.now > enough:
                        break
                server.end(child, signal.SIGKILL)
            child = server.start()
            time.sleep(0.5)
        finally:
            over.set()
        for thread in threads:
            thread.join(60)
        assert server.end(child, signal.SIGTERM) == 0
    return seen


def charged(folder: Path) -> dict[str, float]:
    """Tokens that the ledger says were paid, by caller and by corpus; nothing is held any more."""
    with Ledger(folder / "ledger.sqlite") as ledger:
        found = ledger.status()
    assert all(one.reserved == 0 for one in found)
    assert all(one.budget is None or one.spent <= one.budget for one in found)
    return {one.name: one.spent / TOKEN for one in found}
