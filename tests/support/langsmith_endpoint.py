"""LangSmith's interface at a port of its own, which keeps what clients tell of runs."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_RUN = re.compile(r"(post|patch)\.([0-9a-f-]{36})(?:\.(\w+))?")


class LangSmithEndpoint:
    """A server that takes runs, one by one, in batches and in parts of a form.

    Attributes:
        runs: What was told of each run, by its id; a create and its updates together.
    """

    def __init__(self) -> None:
        self.runs: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"endpoint": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def environment(self) -> dict[str, str]:
        """Variables that switch tracing on and send it here."""
        return {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": f"http://127.0.0.1:{self._server.server_address[1]}",
            "LANGSMITH_API_KEY": "none",
            "LANGSMITH_DISABLE_RUN_COMPRESSION": "true",
        }

    def take(self, content_type: str, path: str, body: bytes) -> None:
        """Keep what a request tells."""
        with self._lock:
            if content_type.startswith("multipart/"):
                head = f"Content-Type: {content_type}\r\n\r\n".encode()
                for part in BytesParser().parsebytes(head + body).walk():
                    name = part.get_param("name", header="content-disposition")
                    found = _RUN.fullmatch(str(name))
                    if found is not None:
                        told = json.loads(part.get_payload(decode=True))
                        field = found[3]
                        self.runs[found[2]].update({field: told} if field else told)
                return
            found = json.loads(body or b"{}")
            alone = {} if "post" in found or "patch" in found else {"post": [found]}
            for one in [*found.get("post", []), *found.get("patch", []), *alone.get("post", [])]:
                self.runs[str(one.get("id", path.rpartition("/")[2]))].update(one)


class _Handler(BaseHTTPRequestHandler):
    endpoint: LangSmithEndpoint
    protocol_version = "HTTP/1.1"

    def log_message(self, *words: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send(200)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.endpoint.take(self.headers.get("Content-Type", ""), self.path, body)
        self._send(202)

    do_PATCH = do_POST

    def _send(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
