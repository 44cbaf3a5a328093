"""A server with OpenAI's chat interface that replies as it is told, and fails as it is told."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

SECRET = "quillon-server-words"
"""In whatever this server says beside a reply: its messages quote what they were sent."""

Say = Callable[[str], object]


class FakeChat:
    """A chat server.

    Args:
        say: See below.
        port: Where it listens; by default at one of its own.

    Attributes:
        say: Gives the reply to a prompt: text, a whole answer as a dict, a status, ``reset`` for a
            connection that is cut, ``cut`` for one that is cut within a reply, ``silence`` for a
            reply that does not come, or ``no json``.
        refuses: Fields of a body that it answers with 400.
        models: What it lists.
        bodies: All that it was asked, in their order.
        headers: Of the same.
    """

    name = "tiny"

    def __init__(self, say: Say = lambda prompt: f"re {prompt}", port: int = 0) -> None:
        self.say = say
        self._port = port
        self._over = threading.Event()
        self.refuses: set[str] = set()
        self.models = [self.name]
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Of the interface."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def address(self, model: str = name, **options: object) -> str:
        """As a reader takes it."""
        words = "&".join(f"{name}={value}" for name, value in options.items())
        return f"chat+{self.url}{'?' * bool(words)}{words}{'#' * bool(model)}{model}"

    @property
    def prompts(self) -> list[str]:
        """What was asked, in the order of its coming."""
        return [body["messages"][-1]["content"] for body in self.bodies]


class _Handler(BaseHTTPRequestHandler):
    fake: FakeChat
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *words: object) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()

    def do_GET(self) -> None:
        found = [{"id": name, "owned_by": SECRET} for name in self.fake.models]
        self._send(200, {"data": found})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.fake._lock:
            self.fake.bodies.append(body)
            self.fake.headers.append(dict(self.headers))
        prompt = body["messages"][-1]["content"]
        refused = bool(self.fake.refuses & set(body))
        found = 400 if refused else self.fake.say(prompt)
        if found == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif found == "cut":
            self._send(200, reply("cut"), **{"Content-Length": "1000"})
            self.connection.shutdown(socket.SHUT_RDWR)
        elif found == "silence":
            self.fake._over.wait()
        elif found == "no json":
            self._send(200, SECRET)
        elif isinstance(found, int):
            self._send(found, {"error": {"message": f"{SECRET} {prompt}"}}, Location=self.path)
        elif isinstance(found, dict):
            self._send(200, found)
        else:
            self._send(200, reply(found))

    def _send(self, status: int, found: object, **headers: str) -> None:
        content = (found if isinstance(found, str) else json.dumps(found)).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


def reply(content: object, finish_reason: str = "stop") -> dict[str, Any]:
    """An answer as the interface has it."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    used = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "a",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [choice],
        "usage": used,
    }
