"""The application: endpoints over the server's parts, and every error in OpenAI's form."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from dpicl_rag._validate import place_and_sentence
from dpicl_rag.server.admission import Admission, ServerLimits
from dpicl_rag.server.api_keys import KeyFile, RunKey
from dpicl_rag.server.audits import Auditor
from dpicl_rag.server.dependencies import ServerParts
from dpicl_rag.server.failures import Failure, Refusal
from dpicl_rag.server.regular_syncs import RegularSyncs
from dpicl_rag.server.request_guard import RequestGuard
from dpicl_rag.server.request_log import RequestLog
from dpicl_rag.server.routers import ROUTERS
from dpicl_rag.server.routers.upload_endpoints import FORM_BYTES, UPLOAD_PATH
from dpicl_rag.server.service import Service
from dpicl_rag.server.tool_sessions import ToolSessions
from dpicl_rag.server.tools import Tools
from dpicl_rag.server.uploads import Uploads

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
