"""The endpoints. FastAPI reads their annotations, so these are not strings here."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from dpicl_rag.server import chat, protocol, views
from dpicl_rag.server.admission import Admission
from dpicl_rag.server.api_keys import Caller, KeyFile
from dpicl_rag.server.audits import Auditor
from dpicl_rag.server.catalogue import PUBLIC, Ask, Catalogue
from dpicl_rag.server.failures import Failure, Refusal
from dpicl_rag.server.jobs import Jobs
from dpicl_rag.server.limits import GOING_DOWN, Limits, busy
from dpicl_rag.server.metrics import Metrics
from dpicl_rag.server.owners import OwnerTools, owner_endpoints
from dpicl_rag.server.page import static_page
from dpicl_rag.server.protocol import ChatRequest
from dpicl_rag.server.request_guard import RequestGuard
from dpicl_rag.server.request_log import Exchange, RequestLog
from dpicl_rag.server.run_key import RunKey
from dpicl_rag.server.uploads import Uploads

MOST_BYTES = 64 * 1024
"""Of a request's body, but for uploads."""

MOST_REMEMBERED = 200
"""Answers of a memory that are shown."""


_NOTHING = "there is nothing here; GET /v1/models lists what may be asked"
_SAID = {
    400: "the body cannot be read; send JSON in UTF-8",
    405: "this address takes another method",
    408: "the body did not come in time; send it again",
    413: f"a request has at most {MOST_BYTES} bytes",
}


def create_app(
    catalogue: Catalogue,
    keys: KeyFile | None = None,
    limits: Limits | None = None,
    request_log: RequestLog | None = None,
    *,
    uploads: Uploads | None = None,
    auditor: Auditor | None = None,
) -> FastAPI:
    """The server.

    Args:
        catalogue: What is served.
        keys: Who may ask; None lets in who has the key of this run, ``app.state.run_key``.
        limits: How much at once.
        request_log: Where a line about every question goes; nowhere by default.
        uploads: Where owners' uploads go; None takes none.
        auditor: Runs owners' audits; None runs none.
    """
    admission, metrics, log = Admission(limits or Limits()), Metrics(), request_log or RequestLog()
    tools = OwnerTools(uploads, auditor, Jobs())
    known = RunKey() if keys is None else keys
    metrics.inside.set_function(lambda: admission.inside)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        admission.drain()
        await tools.close()
        # A stream's end pays and refunds: the ledger is closed after the last one.
        await admission.end(catalogue.close)
        if keys is not None:
            keys.close()

    app = FastAPI(
        title="dpicl-rag",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # to where a Host header says
        responses={"default": {"model": Failure, "description": "An error in OpenAI's form"}},
    )
    app.state.admission, app.state.metrics = admission, metrics
    app.state.run_key = known if isinstance(known, RunKey) else None

    def caller_of(request: Request) -> Caller:
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        found = known.find(key.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise Refusal(
                401,
                "no such key; send one that `dpicl-rag keys add` has made, or the one that "
                "`dpicl-rag serve` shows where none were made, as a bearer token",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return found

    Asking = Annotated[Caller, Depends(caller_of)]

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")[:128]
        return Refusal(400, f"{place or 'body'}: {first['msg']}", param=place or None).response()

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> JSONResponse:
        return Refusal(
            error.status_code, _SAID.get(error.status_code, _NOTHING), headers=error.headers
        ).response()

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> JSONResponse:
        return error.response()

    def most_bytes(path: str) -> int:
        return tools.most_bytes(path) or MOST_BYTES

    def told(state: Mapping[str, Any], status: int) -> None:
        exchange = state.get("exchange") or Exchange()
        status = chat.GONE if exchange.left or not status else status
        metrics.request(exchange.corpus, status)
        if exchange.answer is not None:
            metrics.answer(exchange.corpus, exchange.answer)
        if "exchange" in state:
            log.write(exchange, status)

    app.add_middleware(RequestGuard, most_bytes=most_bytes, told=told)

    @app.get("/v1/models")
    def models(caller: Asking) -> dict[str, Any]:
        """Corpora as models, and the one that reads no documents."""
        names = [*catalogue.open_to(caller), PUBLIC]
        return {"object": "list", "data": [protocol.model(name) for name in names]}

    @app.get("/v1/models/{id}")
    def model(id: str, caller: Asking) -> dict[str, Any]:
        """One of them. What the key may not ask is not there."""
        catalogue.served(id, caller)
        return protocol.model(id)

    @app.post(
        "/v1/chat/completions",
        responses={200: {"content": {"application/json": {}, "text/event-stream": {}}}},
    )
    async def completions(body: ChatRequest, request: Request, caller: Asking) -> Response:
        """Ask a corpus."""
        exchange = request.state.exchange = Exchange(caller=caller.name)
        ignored = body.ignored()
        system, before, question = body.conversation()
        asked = Ask(question, before, system, body.most_tokens, body.stops, fresh=body.dpicl.fresh)
        catalogue.served(body.model, caller)
        exchange.corpus, exchange.question = body.model, question
        headers = {"X-DPICL-Ignored": ", ".join(ignored)} if ignored else {}
        answering = chat.Answering(catalogue, admission, body.model, caller, asked, exchange)
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            return await chat.streamed(answering, request, headers, usage)
        return await chat.whole(answering, request, headers)

    @app.get("/v1/budget")
    def budget(caller: Asking) -> dict[str, Any]:
        """Budgets left to the caller, by corpus. Public numbers."""
        return {
            "data": [views.budget(catalogue, name, caller) for name in catalogue.open_to(caller)]
        }

    @app.get("/v1/memory")
    def memory(caller: Asking, model: str | None = None) -> dict[str, Any]:
        """Answers released to the caller before, the newest first. Public to this caller."""
        names = [model] if model is not None else catalogue.open_to(caller)
        found = [
            entry for name in names for entry in catalogue.remembered(name, caller, MOST_REMEMBERED)
        ]
        found.sort(key=lambda entry: entry.time, reverse=True)
        return {"data": [views.remembered(entry) for entry in found[:MOST_REMEMBERED]]}

    @app.get("/v1/caller")
    def who(caller: Asking) -> dict[str, Any]:
        """The caller: the name of the key, None where no keys are in use; and the model."""
        return {
            "name": caller.name,
            "role": caller.role,
            "keys": keys is not None,
            "toy": catalogue.is_toy,
        }

    app.include_router(owner_endpoints(tools, catalogue, keys, admission, caller_of))
    app.include_router(static_page())

    @app.get("/health")
    def health() -> dict[str, str]:
        """Whether the process lives."""
        return {"status": "ok"}

    @app.get("/ready")
    def ready() -> dict[str, str]:
        """Whether it takes questions."""
        if admission.draining:
            raise busy(GOING_DOWN)
        catalogue.check()
        if keys is not None:
            keys.check()
        return {"status": "ready"}

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
    def counted(caller: Asking) -> Response:
        """For Prometheus, with the key of an owner of all corpora: it names those open to it."""
        if caller.role != "owner" or caller.corpora is not None:
            raise Refusal(
                403,
                "this is for owners of all corpora; use a key made with --owner alone",
                code="not_owner",
            )
        return Response(metrics.text(caller), media_type="text/plain; version=0.0.4")

    return app
