"""Endpoints of owners: corpora, budgets, audits. Callers get a 403.

Responses may follow from the documents: they are for their owner.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect

from dpicl_rag.answering.answers import in_thread
from dpicl_rag.corpora.corpus import require_corpus_name
from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.ledger.scope import require_name
from dpicl_rag.server import views
from dpicl_rag.server.admission import Admission
from dpicl_rag.server.api_keys import Caller, KeyFile
from dpicl_rag.server.audits import Auditor
from dpicl_rag.server.catalogue import PUBLIC, Catalogue
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.jobs import Job, Jobs, Stopped
from dpicl_rag.server.limits import GOING_DOWN, busy
from dpicl_rag.server.uploads import Unit, Uploads

UPLOAD_PATH = "/v1/owner/documents"
MOST_EPSILON = 1e6
"""Of a budget."""

_FORM_BYTES = 64 * 1024  # beside the file
_FIELD_LETTERS = 256
_POLL = 0.2  # seconds

T = TypeVar("T")

_UPLOAD_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["corpus", "file"],
                    "properties": {
                        "corpus": {"type": "string"},
                        "epsilon": {"type": "string"},
                        "file": {"type": "string", "format": "binary"},
                        "unit": {"type": "string"},
                        "text_field": {"type": "string"},
                        "key_field": {"type": "string"},
                    },
                }
            }
        },
    }
}


class Budget(BaseModel):
    """A budget to set.

    Attributes:
        kind: Of a corpus or of a caller.
        name: Which.
        epsilon: What all answers of a period may reveal together; None for no limit.
        delta: At which epsilon is given.
        period: After which it renews.
        strict: Refuse every answer once the public bound has reached it.
    """

    kind: Literal["corpus", "caller"]
    name: str = Field(min_length=1, max_length=512)
    epsilon: float | None = Field(ge=0, le=MOST_EPSILON, allow_inf_nan=False)
    delta: float = Field(1e-5, gt=0, lt=1)
    period: Literal["lifetime", "day", "month", "year"] = "lifetime"
    strict: bool = False


class Opening(BaseModel):
    """A corpus to open to other keys.

    Attributes:
        corpus: Its name.
    """

    corpus: str = Field(min_length=1, max_length=512)


class AuditRequest(BaseModel):
    """A corpus to audit, a question that its documents answer, and how long it may take.

    Attributes:
        corpus: Its name.
        question: What is asked. Public.
        runs: Answers drawn with a canary, and as many without. Public.
    """

    corpus: str = Field(min_length=1, max_length=512)
    question: str = Field(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f]+$")
    runs: int = Field(100, ge=4, le=2000)


@dataclass(frozen=True)
class OwnerTools:
    """Tools of owners.

    Attributes:
        uploads: Where uploads go; None takes none.
        auditor: Runs audits; None runs none.
        jobs: What is under way.
    """

    uploads: Uploads | None
    auditor: Auditor | None
    jobs: Jobs

    async def close(self) -> None:
        """End the job under way, and close what was opened."""
        await self.jobs.close()
        if self.uploads is not None:
            self.uploads.close()

    def most_bytes(self, path: str) -> int | None:
        """Of a body; None where owners have no limit of their own."""
        if path != UPLOAD_PATH or self.uploads is None:
            return None
        return self.uploads.most_bytes + _FORM_BYTES


def owner_endpoints(
    tools: OwnerTools,
    catalogue: Catalogue,
    keys: KeyFile | None,
    admission: Admission,
    caller_of: Callable[[Request], Caller],
) -> APIRouter:
    """The endpoints below ``/v1/owner``."""
    router = APIRouter(prefix="/v1/owner")
    jobs = tools.jobs

    def owner_of(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        if caller.role != "owner":
            raise Refusal(
                403,
                "this is for owners; ask with a key that `dpicl-rag keys add --owner` has made",
                code="not_owner",
            )
        return caller

    Owning = Annotated[Caller, Depends(owner_of)]

    def auditor_for(corpus: str, owner: Caller) -> Auditor:
        catalogue.served(corpus, owner)
        if tools.auditor is None or corpus == PUBLIC:
            raise Refusal(404, "no audits here; use `dpicl-rag audit`", code="no_audits")
        return tools.auditor

    def job_of(owner: Caller) -> Job:
        found = jobs.of(owner)
        if found is None:
            raise Refusal(404, "no job was started yet", code="no_job")
        return found

    def claim(uploads: Uploads, owner: Caller, corpus: str, epsilon: float | None) -> None:
        """Make a corpus ready to be filled: a new one is the owner's alone, and has a budget."""
        if not owner.may_ask(corpus) or uploads.is_taken(corpus, catalogue):
            # One sentence for what is another key's, what is not served and what this key may not.
            raise Refusal(
                403,
                "this key cannot fill a corpus of that name; choose another",
                param="corpus",
            )
        if corpus not in catalogue.corpora:
            if keys is not None:
                keys.close_corpus(corpus, owner)
            if tools.auditor is not None:
                tools.auditor.forget(corpus)  # of one that was deleted, maybe another owner's
        uploads.give_budget(corpus, catalogue, epsilon)

    @router.get("")
    def overview(owner: Owning) -> dict[str, Any]:
        """Corpora, callers, their budgets and the latest job."""
        corpora = catalogue.open_to(owner)
        closed = {} if keys is None else keys.closed()
        everyone = owner.corpora is None
        callers = [one.name for one in keys.callers()] if keys is not None and everyone else []
        named = {("corpus", name) for name in corpora} | {("caller", name) for name in callers}
        job = jobs.of(owner)
        return {
            "corpora": corpora,
            "closed": [name for name in corpora if name in closed],
            "callers": callers,
            "budgets": [
                views.owned(catalogue, one, Budget.model_fields["delta"].default)
                for one in catalogue.ledger.status()
                if (one.kind, one.name) in named
            ],
            "most_bytes": None if tools.uploads is None else tools.uploads.most_bytes,
            "upload_epsilon": None if tools.uploads is None else tools.uploads.config.epsilon,
            "audits": tools.auditor is not None,
            "job": None if job is None else job.view(),
        }

    @router.post("/documents", status_code=202, openapi_extra=_UPLOAD_FORM)
    async def upload(request: Request, owner: Owning) -> dict[str, Any]:
        """Read a mailbox, table or text into a corpus, which can be asked when that is done."""
        uploads = tools.uploads
        if uploads is None:
            raise Refusal(404, "no uploads here; use `dpicl-rag ingest`", code="no_uploads")
        job = jobs.begin("ingest", "", owner)
        try:
            job.at("Receiving the file")
            receiving = _received(request, job, uploads, partial(claim, uploads, owner))
            path, unit = await _unless_stopped(receiving, job, admission)
            jobs.run(job, lambda job: uploads.ingest(job, catalogue, admission, path, unit))
        except BaseException as error:
            jobs.fail(job, error)
            raise
        return job.view()

    @router.get("/job")
    def job(owner: Owning) -> dict[str, Any]:
        """The job under way, or the last one."""
        return job_of(owner).view()

    @router.post("/job/stop")
    def stop(owner: Owning) -> dict[str, Any]:
        """End the job at its next step; what it has stored stays."""
        job = job_of(owner)
        jobs.stop()
        return job.view()

    @router.post("/open")
    def open_corpus(body: Opening, owner: Owning) -> dict[str, Any]:
        """Open a corpus that was uploaded to other keys: those that name it, or name none."""
        catalogue.served(body.corpus, owner)
        if keys is not None:
            keys.open_corpus(body.corpus)
        return {"corpus": body.corpus, "closed": False}

    @router.post("/budgets")
    def set_budget(body: Budget, owner: Owning) -> dict[str, Any]:
        """Set all budgets of a corpus or a caller, in place of those it had."""
        if body.kind == "corpus":
            if body.name == PUBLIC:
                raise Refusal(400, "the public model costs nothing and has no budget", param="name")
            catalogue.served(body.name, owner)
        elif owner.corpora is not None:
            raise Refusal(403, "budgets of callers are set by owners of all corpora")
        elif keys is None or body.name not in {one.name for one in keys.callers()}:
            raise Refusal(404, "nobody of that name has a key", param="name")
        catalogue.ledger.set_budget(
            corpus=body.name if body.kind == "corpus" else None,
            caller=body.name if body.kind == "caller" else None,
            rho=math.inf if body.epsilon is None else None,
            epsilon=body.epsilon,
            delta=body.delta,
            period=body.period,
            strict=body.strict,
        )
        every = {(one.kind, one.name): one for one in catalogue.ledger.status()}
        return views.owned(catalogue, every[body.kind, body.name], body.delta)

    @router.post("/audits", status_code=202)
    async def audit(body: AuditRequest, owner: Owning) -> dict[str, Any]:
        """Audit a corpus in a process beside the server. Nothing is spent."""
        auditor = auditor_for(body.corpus, owner)
        job = jobs.begin("audit", body.corpus, owner)
        try:
            settings = catalogue.corpora[body.corpus].settings
            command = auditor.begin(body.corpus, body.question, body.runs, settings)
            jobs.run(job, lambda job: auditor.run(job, command))
        except BaseException as error:
            jobs.fail(job, error)
            raise
        return job.view()

    @router.get("/audits/{corpus}")
    def report(corpus: str, owner: Owning) -> JSONResponse:
        """Figures and text of the last audit."""
        found = auditor_for(corpus, owner).report(corpus)
        if found is None:
            raise Refusal(404, "this corpus was not audited here yet", code="no_audit")
        return JSONResponse(found)

    @router.get(
        "/audits/{corpus}/plot",
        response_class=Response,
        responses={200: {"content": {"image/png": {}}}},
    )
    def plot(corpus: str, owner: Owning) -> Response:
        """The plot of the last audit."""
        found = auditor_for(corpus, owner).plot(corpus)
        if found is None:
            raise Refusal(404, "this corpus was not audited here yet", code="no_audit")
        return Response(found, media_type="image/png")

    return router


async def _unless_stopped(work: Coroutine[Any, Any, T], job: Job, admission: Admission) -> T:
    """The result of the work; it ends when the job is stopped or the server goes down.

    Raises:
        Refusal: It was ended.
    """
    working = asyncio.ensure_future(work)
    try:
        while not working.done():
            await asyncio.wait([working], timeout=_POLL)
            if admission.draining:
                raise busy(GOING_DOWN)
            job.at(job.stage)
        return working.result()
    except Stopped:
        raise Refusal(409, "the upload was stopped", code="job_stopped") from None
    finally:
        working.cancel()
        await asyncio.wait([working])
        if not working.cancelled():
            working.exception()  # seen: nothing of it reaches a log


async def _received(
    request: Request, job: Job, uploads: Uploads, claim: Callable[[str, float | None], None]
) -> tuple[Any, Unit]:
    """The file of an upload on disk, and how it is to be read; its corpus is claimed before.

    Raises:
        Refusal: The form is not as it should be.
    """
    try:
        # Starlette keeps what is larger than 1 MiB in a file.
        async with request.form(max_files=1, max_fields=8, max_part_size=_FORM_BYTES) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise _wrong("send the document as the field file", "file")
            fields = {
                name: _short(name, form.get(name))
                for name in ("corpus", "epsilon", "unit", "text_field", "key_field")
            }
            epsilon = _epsilon(fields.pop("epsilon"))
            name = _corpus(fields.pop("corpus"))
            await in_thread(claim, name, epsilon)
            job.corpus = name
            # The form's own file is read in a worker thread, so that answers go on.
            path = await in_thread(uploads.keep, job.corpus, file.filename or "", file.file)
    except ClientDisconnect:
        raise Refusal(400, "the upload broke off; send it again") from None
    except OSError as error:
        # Of this very file, to its owner.
        raise Refusal(
            507,
            f"the upload cannot be stored ({error.strerror}); see that the server has space for it",
            kind="server_error",
            code="no_space",
        ) from None
    except (HTTPException, MultiPartException, UnicodeError) as error:
        status = error.status_code if isinstance(error, HTTPException) else 400
        if status == 413:
            raise Refusal(413, f"an upload has at most {uploads.most_bytes:,} bytes") from None
        if status != 400:
            raise
        raise _wrong("send a form of the kind multipart/form-data", None) from None
    return path, Unit(**fields)


def _corpus(name: str | None) -> str:
    if name is None:
        raise _wrong("name the corpus", "corpus")
    try:
        require_corpus_name(name)
        require_name("corpus", name)
    except (CorpusError, ConfigurationError) as error:
        raise _wrong(str(error), "corpus") from None
    if name == PUBLIC:
        raise _wrong(f"{PUBLIC!r} is the model without documents; choose another name", "corpus")
    return name


def _epsilon(given: str | None) -> float | None:
    if given is None:
        return None
    try:
        found = float(given)
    except ValueError:
        found = math.nan
    if not 0 <= found <= MOST_EPSILON:
        raise _wrong(f"epsilon is a number from 0 to {MOST_EPSILON:,.0f}", "epsilon")
    return found


def _short(name: str, value: Any) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _FIELD_LETTERS or not value.isprintable():
        raise _wrong(f"{name} is a short text", name)
    if not value.strip():  # a unit that was meant to be a column, and would be each row
        raise _wrong(f"{name} is empty; fill it in, or leave the field out", name)
    return value


def _wrong(message: str, param: str | None) -> Refusal:
    return Refusal(400, message, param=param)
