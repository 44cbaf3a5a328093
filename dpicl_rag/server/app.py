"""The application: endpoints over the server's parts, and every error in OpenAI's form."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpicl_rag._validate import place_and_sentence
from dpicl_rag.server.admission import Admission, ServerLimits
from dpicl_rag.server.api_keys import KeyFile, RunKey
from dpicl_rag.server.audits import Auditor
from dpicl_rag.server.dependencies import ServerParts
from dpicl_rag.server.failures import Failure, Refusal, refusal
from dpicl_rag.server.regular_syncs import RegularSyncs
from dpicl_rag.server.request_log import RequestLog
from dpicl_rag.server.routers import ROUTERS
from dpicl_rag.server.routers.upload_endpoints import FORM_BYTES, UPLOAD_PATH
from dpicl_rag.server.service import Service
from dpicl_rag.server.tool_server import ToolSessions
from dpicl_rag.server.tools import Tools
from dpicl_rag.server.uploads import Uploads

PATIENCE = 30.0
"""Seconds for a body to come."""

BYTES_A_SECOND = 16 * 1024
"""What is large may take longer, at this pace."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
}


class RequestGuard:
    """The outermost layer: no exception passes it, since servers write what they catch to a log.

    Args:
        app: What is inside.
        most_bytes: Of a body, by path.
        told: Called with what the request noted in its state, and the answer's status; 0 if none
            was sent.
    """

    def __init__(
        self,
        app: ASGIApp,
        most_bytes: Callable[[str], int],
        told: Callable[[Mapping[str, Any], int], None],
    ) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._told = told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, by ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._most_bytes(scope["path"])
        state = scope.setdefault("state", {})
        begin = time.monotonic()
        status, read, whole = 0, 0, False

        async def limited() -> Message:
            nonlocal read, whole
            if whole:  # what comes now is that the client hangs up, whenever it likes
                return await receive()
            left = begin + PATIENCE + read / BYTES_A_SECOND - time.monotonic()
            try:
                async with asyncio.timeout(left):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, headers={"Connection": "close"}) from None
            read += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if read > most:
                # FastAPI turns every other exception of a body into a 400.
                raise HTTPException(413)
            return message

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            await self._app(scope, limited, sent)
        except Exception as error:
            if not status:
                await refusal(error).response()(scope, receive, sent)
        finally:
            self._told(state, status)


MOST_BYTES = 64 * 1024
"""Bytes of a request's body, but for uploads."""

_NOTHING = "there is nothing here; GET /v1/models lists what may be asked"
_SAID = {
    400: "the body cannot be read; send JSON in UTF-8",
    405: "this address takes another method",
    408: "the body did not come in time; send it again",
    413: f"a request has at most {MOST_BYTES} bytes",
}


def create_app(
    service: Service,
    keys: KeyFile | None = None,
    limits: ServerLimits | None = None,
    request_log: RequestLog | None = None,
    *,
    uploads: Uploads | None = None,
    auditor: Auditor | None = None,
    syncs: RegularSyncs | None = None,
    published: Path | None = None,
    origins: Sequence[str] = (),
) -> FastAPI:
    """The server. Its parts are ``app.state.parts``.

    Args:
        service: What is served.
        keys: Who may ask; None lets in who has the key of this run, ``parts.run_key``.
        limits: How much at once.
        request_log: Where a line about every question goes; nowhere by default.
        uploads: Where owners' uploads go; None takes none.
        auditor: Runs owners' audits; None runs none.
        syncs: Bring the corpora up to date; None leaves that to others.
        published: Folder of the bundles that owners publish; None publishes none.
        origins: Other sites whose pages may ask from a browser, with a key.
    """
    admission = Admission(limits or ServerLimits())
    parts = ServerParts(
        service=service,
        keys=keys,
        run_key=RunKey() if keys is None else None,
        admission=admission,
        request_log=request_log or RequestLog(),
        uploads=uploads,
        auditor=auditor,
        tool_sessions=ToolSessions(Tools(service, admission)),
        syncs=syncs,
        published=published,
    )
    app = FastAPI(
        title="dpicl-rag",
        version="1",
        lifespan=_closing,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # to where a Host header says
        responses={"default": {"model": Failure, "description": "An error in OpenAI's form"}},
        exception_handlers={
            RequestValidationError: _malformed,
            HTTPException: _unknown,
            Refusal: _refused,
        },
    )
    app.state.parts = parts
    most_bytes = partial(_most_bytes, uploads)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[*origins],
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["X-DPICL-Ignored"],
        )
    app.add_middleware(RequestGuard, most_bytes=most_bytes, told=parts.told)
    for router in ROUTERS:
        app.include_router(router)
    return app


@asynccontextmanager
async def _closing(app: FastAPI) -> AsyncIterator[None]:
    async with app.state.parts.running():
        yield
    await app.state.parts.close()


async def _malformed(_: Request, error: RequestValidationError) -> JSONResponse:
    place, sentence = place_and_sentence(error)
    return Refusal(400, sentence if place else f"body: {sentence}", param=place or None).response()


async def _unknown(_: Request, error: HTTPException) -> JSONResponse:
    status = error.status_code
    return Refusal(status, _SAID.get(status, _NOTHING), headers=error.headers).response()


async def _refused(_: Request, error: Refusal) -> JSONResponse:
    return error.response()


def _most_bytes(uploads: Uploads | None, path: str) -> int:
    if uploads is None or path != UPLOAD_PATH:
        return MOST_BYTES
    return uploads.most_bytes + FORM_BYTES
