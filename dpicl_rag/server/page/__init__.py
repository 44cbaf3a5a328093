"""The page at ``/``: three files and a sign, as they lie here. No build step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response

_FOLDER = Path(__file__).parent
_FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "page/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "page/owner.js": ("owner.js", "text/javascript; charset=utf-8"),
    "page/shared.js": ("shared.js", "text/javascript; charset=utf-8"),
    "page/style.css": ("style.css", "text/css; charset=utf-8"),
    "page/icon.svg": ("icon.svg", "image/svg+xml"),
}


def static_page() -> APIRouter:
    """The page's files, by name: no path of a request ever reaches the disk."""
    router = APIRouter(include_in_schema=False)
    for path, (name, kind) in _FILES.items():
        router.add_api_route(f"/{path}", _sender(name, kind), methods=["GET", "HEAD"])
    return router


def _sender(name: str, kind: str) -> Callable[[], Response]:
    # Whole, and not in ranges, which have errors of their own.
    content = (_FOLDER / name).read_bytes()

    def send() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return send
