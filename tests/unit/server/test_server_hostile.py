"""A server of its own process under uploads and questions that were made to stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.unit.loaders.test_loaders_hostile import HEAD, MAILS, MARKS, POSTMARK

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals"),
]
ROOT = Path(__file__).parents[3]
HEALTHY_S = 2.0
ENDED_S = 10.0


class Server:
    """`dpicl-rag serve` without keys."""

    def __init__(self, folder: Path) -> None:
        store, ledger = str(folder / "store"), str(folder / "ledger.sqlite")
        words = ["serve", "--port", "0", "--path", store, "--ledger", ledger]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.small_cli", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        page = ""
        while "#" not in page:
            page = self.process.stdout.readline()
            assert page, "it did not start"
        url, _, key = page.split()[-1].partition("#")
        headers = {"Authorization": f"Bearer {key}"}
        self.client = httpx.Client(base_url=url, timeout=60, headers=headers)
        self.slowest = 0.0
        self._watching = True
        self._watch = threading.Thread(target=self._look, args=(url,), daemon=True)
        self._watch.start()

    def _look(self, url: str) -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while self._watching:
                begin = time.monotonic()
                assert client.get("/health").status_code == 200
                self.slowest = max(self.slowest, time.monotonic() - begin)
                time.sleep(0.05)

    def upload(self, name: str, content: bytes) -> None:
        answer = self.client.post(
            "/v1/owner/documents", data={"corpus": "mail"}, files={"file": (name, content)}
        )
        assert answer.status_code == 202, answer.text

    def ended(self) -> dict:
        while (job := self.client.get("/v1/owner/job").json())["state"] == "running":
            time.sleep(0.05)
        return job

    def end(self) -> float:
        """Seconds from SIGTERM to its end."""
        self._watching = False
        self._watch.join(60)
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        return time.monotonic() - begin


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    yield made
    made._watching = False
    made._watch.join(60)
    made.process.kill()
    made.process.wait()
    made.process.stdout.close()
    made.client.close()


def test_it_is_healthy_under_hostile_uploads_and_questions_and_ends(server):
    plain = b"From: a@b.c\nMessage-ID: <a@b.c>\nSubject: Office\n\nThe office is in Elm Lane.\n"
    mails = [plain, *(HEAD.replace(b"eve@", b"%d@" % n) + raw for n, (raw, _) in
                      enumerate(MAILS.values()))]  # fmt: skip
    server.upload("box.mbox", b"".join(POSTMARK + one + b"\n\n" for one in mails))
    job = server.ended()
    assert job["state"] == "done", job
    assert job["result"]["loaded"] > len(MAILS) // 2
    rows = "".join(f"{n},a{MARKS * 50_000}\n" for n in range(10))
    server.upload("cells.csv", f"who,note\n{rows}".encode())
    assert server.ended()["state"] == "done"
    for question in (f"Where{MARKS * 15_000}?", "one two " * 8_000, "1. " * 20_000):
        body = {"model": "mail", "messages": [{"role": "user", "content": question}]}
        assert server.client.post("/v1/chat/completions", json=body).status_code < 500
    assert server.slowest < HEALTHY_S
    slow = HEAD + b"Content-Type: text/html\n\n" + b"<div><p>a<b>b</b></p></div>" * 400_000
    server.upload("slow.eml", slow)
    assert server.end() < ENDED_S
