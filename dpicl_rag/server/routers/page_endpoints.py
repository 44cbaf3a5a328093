"""The page at ``/``: files and a sign, as they lie beside the package. No build step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response

_FOLDER = Path(__file__).parents[1] / "page"
_SCRIPTS = (
    *("app", "asking", "audit", "budget", "composer", "conversation", "counting", "door"),
    *("durations", "job", "memory", "navigation", "notes", "owner", "shared", "turn", "upload"),
)
_KINDS = {
    "index.html": "text/html; charset=utf-8",
    **{f"{name}.js": "text/javascript; charset=utf-8" for name in _SCRIPTS},
    "style.css": "text/css; charset=utf-8",
    "conversation.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

router = APIRouter(include_in_schema=False)


def _sender(name: str, kind: str) -> Callable[[], Response]:
    # Whole, and not in ranges, which have errors of their own.
    content = (_FOLDER / name).read_bytes()

    def send() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return send


# By name: no path of a request ever reaches the disk.
for _name, _kind in _KINDS.items():
    _path = "/" if _name == "index.html" else f"/page/{_name}"
    router.add_api_route(_path, _sender(_name, _kind), methods=["GET", "HEAD"])
