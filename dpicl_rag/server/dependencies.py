"""Dependencies of endpoints, which FastAPI fills in: the server's parts, and who asks."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request

from dpicl_rag.answering.worker_threads import one_task
from dpicl_rag.server.admission import Admission
from dpicl_rag.server.api_keys import Caller, KeyFile, RunKey
from dpicl_rag.server.audits import Auditor
from dpicl_rag.server.delivery import GONE
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.jobs import Jobs
from dpicl_rag.server.metrics import Metrics
from dpicl_rag.server.regular_syncs import RegularSyncs
from dpicl_rag.server.request_log import Exchange, RequestLog
from dpicl_rag.server.service import Service
from dpicl_rag.server.tool_server import ToolSessions
from dpicl_rag.server.uploads import Uploads


@dataclass(frozen=True)
class ServerParts:
    """Everything that endpoints use: arguments of ``create_app``, and what is made of them.

    Attributes:
        keys: Who may ask; None where the run has a key of its own.
        run_key: That key; None where keys were made.
    """

    service: Service
    keys: KeyFile | None
    run_key: RunKey | None
    admission: Admission
    request_log: RequestLog
    uploads: Uploads | None
    auditor: Auditor | None
    tool_sessions: ToolSessions
    syncs: RegularSyncs | None = None
    published: Path | None = None
    jobs: Jobs = field(default_factory=Jobs)
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self.metrics.inside.set_function(lambda: self.admission.inside)

    def told(self, state: Mapping[str, Any], status: int) -> None:
        """Count a request, and log a question."""
        exchange = state.get("exchange") or Exchange()
        status = GONE if exchange.left or not status else exchange.refused or status
        self.metrics.request(exchange.corpus, status)
        if exchange.answer is not None:
            self.metrics.answer(exchange.corpus, exchange.answer)
        if "exchange" in state:
            self.request_log.write(exchange, status)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work beside the requests; it has ended when the block has."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.tool_sessions.run())
            if self.syncs is not None:
                await stack.enter_async_context(one_task(self.syncs.run(self.service)))
            yield

    async def close(self) -> None:
        """End what is under way, pay for it, and close what was opened."""
        self.admission.drain()
        await self.jobs.close()
        if self.uploads is not None:
            self.uploads.close()
        # A stream's end pays and refunds: the ledger is closed after the last one.
        await self.admission.end(self.service.close)
        if self.keys is not None:
            self.keys.close()


async def _parts_of(request: Request) -> ServerParts:
    found: ServerParts = request.app.state.parts
    return found


Using = Annotated[ServerParts, Depends(_parts_of)]
"""An endpoint's parameter: the server's parts."""


def _caller_of(request: Request, parts: Using) -> Caller:
    known = parts.keys or parts.run_key
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    found = known.find(key.strip()) if known is not None and scheme.lower() == "bearer" else None
    if found is None:
        raise Refusal(
            401,
            "no such key; send one that `dpicl-rag keys add` has made, or the one that "
            "`dpicl-rag serve` shows where none were made, as a bearer token",
            code="invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return found


Asking = Annotated[Caller, Depends(_caller_of)]
"""An endpoint's parameter: who asks; without a key of the server nobody gets there."""


def _owner_of(caller: Asking) -> Caller:
    if caller.role != "owner":
        raise Refusal(
            403,
            "this is for owners; ask with a key that `dpicl-rag keys add --owner` has made",
            code="not_owner",
        )
    return caller


Owning = Annotated[Caller, Depends(_owner_of)]
"""An endpoint's parameter: the owner who asks; other callers get a 403."""
