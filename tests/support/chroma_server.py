"""A Chroma server in a process of its own, as ``chroma run`` starts it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

_RUN = "from chromadb.cli.cli import app; app()"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def chroma_server(folder: Path) -> Iterator[int]:
    """The port of a server over a folder; the test is skipped where none starts."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, "run", "--path", str(folder), "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{port}/api/v2/heartbeat").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        else:
            pytest.skip("chroma run does not start here")
        yield port
    finally:
        process.terminate()
        process.wait(30)
