"""A Hugging Face hub on this machine: files of a folder, and a note of what was asked for."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """What it has and what it was asked.

    Attributes:
        url: For ``HF_ENDPOINT``.
        asked: Method, path and headers of each request.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self.folders = folders
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.url = ""

    def find(self, path: str) -> tuple[Path, str] | None:
        """File and revision of a path, ``/OWNER/NAME/resolve/REVISION/FILE``."""
        repository, _, rest = path.lstrip("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        if repository not in self.folders:
            return None
        return self.folders[repository] / file, revision


@contextlib.contextmanager
def served_hub(folders: Mapping[str, Path]) -> Iterator[Hub]:
    """A hub with some repositories, by id; it ends with the block."""
    hub = Hub(folders)

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, *, body: bool) -> None:
            hub.asked.append((self.command, self.path, dict(self.headers)))
            found = hub.find(self.path)
            error = "RepoNotFound" if found is None else "EntryNotFound"
            if found is None or not found[0].is_file():
                self.send_response(404)
                self.send_header("X-Error-Code", error)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = found[0].read_bytes()
            self.send_response(200)
            self.send_header("X-Repo-Commit", COMMIT if found[1] == "main" else found[1])
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
