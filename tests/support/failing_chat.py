"""A chat server in a process of its own that fails at random, and is killed and started again.

``python -m tests.support.failing_chat PORT SEED`` is the server.
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path

from tests.support.fake_chat import FakeChat

LINE = "The shuttle leaves at 6:40."
"""What it says to every document; to labels it says ``yes``."""

_ROOT = Path(__file__).parents[2]
_FAILS, _HANGS = 1 / 4, 1 / 500  # of its calls
_FAILURES = (429, 500, 503, "reset", "cut", "no json")


class FailingChat:
    """Kills the server at random and starts it again at the same port, as a context manager.

    Args:
        up: Seconds that it runs, on average.
        down: Seconds that it is gone, at most.
        long: Seconds that it is gone once in ten times.

    Attributes:
        kills: How often it was killed so far.
    """

    def __init__(self, up: float, down: float, long: float) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.kills = 0
        self._up, self._down, self._long = up, down, long
        self._coins, self._over = random.Random(5), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def address(self, **options: object) -> str:
        """As a reader takes it."""
        words = "&".join(f"{name}={value}" for name, value in options.items())
        return f"chat+http://127.0.0.1:{self.port}/v1?{words}#{FakeChat.name}"

    def __enter__(self) -> FailingChat:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        for number in count():
            if self._over.is_set():
                return
            command = [sys.executable, "-m", __name__, str(self.port), str(number)]
            with subprocess.Popen(command, cwd=_ROOT, stderr=subprocess.DEVNULL) as process:
                self.kills += not self._over.wait(self._coins.expovariate(1 / self._up))
                process.kill()
            gone = self._coins.random() < 0.1
            self._over.wait(self._long if gone else self._coins.uniform(0, self._down))


def _serve(port: int, seed: int) -> None:
    coins, lock = random.Random(seed), threading.Lock()

    def say(prompt: str) -> object:
        if "Document:" not in prompt:
            return "OK"
        with lock:
            drawn, failure = coins.random(), coins.choice(_FAILURES)
        if drawn < _HANGS:
            return "silence"
        if drawn < _FAILS:
            return failure
        return "yes" if "labels" in prompt else LINE

    with FakeChat(say, port):
        threading.Event().wait()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
