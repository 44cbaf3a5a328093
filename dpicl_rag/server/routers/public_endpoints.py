"""Endpoints that are open to everybody: the page at ``/`` and the health of the process."""

from __future__ import annotations

import json
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response

from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.server.dependencies import Using

_FOLDER = Path(__file__).parents[1] / "page"
_SCRIPT = "text/javascript; charset=utf-8"
_SCRIPTS = (
    *("app", "asking", "audit", "budget", "composer", "conversation", "counting", "door"),
    *(
        "durations",
        "job",
        "kinds",
        "memory",
        "navigation",
        "notes",
        "owner",
        "publish",
        "shared",
        "turn",
        "upload",
    ),
)
_KINDS = {
    "index.html": "text/html; charset=utf-8",
    **{f"{name}.js": _SCRIPT for name in _SCRIPTS},
    "style.css": "text/css; charset=utf-8",
    "conversation.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
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
for _name, _kind in _KINDS.items():
    _path = "/" if _name == "index.html" else f"/page/{_name}"
    _add_page(_path, (_FOLDER / _name).read_bytes(), _kind)
_words = f"export const UNSUPPORTED = {json.dumps(UNSUPPORTED)};\n"
_add_page("/page/words.js", _words.encode(), _SCRIPT)
