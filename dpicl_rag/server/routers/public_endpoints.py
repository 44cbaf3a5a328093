"""Endpoints that are open to everybody: the page at ``/`` and the health of the process."""

from __future__ import annotations

import json
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response

from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.server.dependencies import Using

_FOLDER = Path(__file__).parents[1] / "page"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

router = APIRouter()


@router.get("/health")
def health() -> dict[str, str]:
    """Whether the process lives."""
    return {"status": "ok"}


@router.get("/ready")
def ready(parts: Using) -> dict[str, str]:
    """Whether it takes questions."""
    parts.admission.check()
    parts.service.check()
    if parts.keys is not None:
        parts.keys.check()
    return {"status": "ready"}


def _add_page(path: str, content: bytes, kind: str) -> None:
    # Whole, and not in ranges, which have errors of their own.
    def send() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    router.add_api_route(path, send, methods=["GET", "HEAD"], include_in_schema=False)


# By name: no path of a request ever reaches the disk. Files are sent as they lie beside the
# package, without a build step.
for _file in sorted(one for one in _FOLDER.iterdir() if one.suffix in _KINDS):
    _path = "/" if _file.name == "index.html" else f"/page/{_file.name}"
    _add_page(_path, _file.read_bytes(), _KINDS[_file.suffix])
_words = f"export const UNSUPPORTED = {json.dumps(UNSUPPORTED)};\n"
_add_page("/page/words.js", _words.encode(), _KINDS[".js"])
