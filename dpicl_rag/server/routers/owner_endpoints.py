"""An owner's corpora: overview, access, budgets, jobs, audits, bundles and metrics.

Responses to owners may follow from the documents, here and in ``upload_endpoints.py``: they are for
their owner.
"""

import math
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from dpicl_rag.accounting import DELTA
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.errors import KnowledgeError
from dpicl_rag.knowledge.bundle import ABOUT, MANIFEST, Bundle
from dpicl_rag.language_models.turns import taking_turns
from dpicl_rag.publishing import plan_publication, publish
from dpicl_rag.requests import Request
from dpicl_rag.server.admission import MOST_EPSILON
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.audits import Auditor
from dpicl_rag.server.dependencies import Asking, Owning, ServerParts, Using
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.jobs import Job, Jobs
from dpicl_rag.server.protocol.request_bodies import LONGEST_QUESTION, PublicText
from dpicl_rag.server.service import PUBLIC

T = TypeVar("T")

_Lines = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION)]], Field(max_length=64)
]

router = APIRouter()


class Opening(BaseModel):
    """A corpus to open to other keys.

    Attributes:
        corpus: Its name.
    """

    corpus: str = Field(min_length=1, max_length=512)


class Budget(BaseModel):
    """A budget to set.

    Attributes:
        kind: Of a corpus or of a caller.
        name: Which.
        epsilon: What all answers of a period may reveal together; None for no limit.
        delta: At which epsilon is given.
        period: After which it renews.
        strict: Refuse every answer once the public bound has reached it.
        answers: An answer takes one part in so many of what is left of its delta for thresholds.
        gaussian: For Gaussian noise alone, see `Ledger.set_budget`.
    """

    kind: Literal["corpus", "caller"]
    name: str = Field(min_length=1, max_length=512)
    epsilon: float | None = Field(ge=0, le=MOST_EPSILON, allow_inf_nan=False)
    delta: float = Field(DELTA, gt=0, lt=1)
    period: Literal["lifetime", "day", "month", "year"] = "lifetime"
    strict: bool = False
    answers: int = Field(SHARES.answers, ge=1)
    gaussian: bool = False


class Publication(BaseModel):
    """A bundle to publish. All of it is public.

    Attributes:
        corpus: Name of the corpus.
        epsilon: Of all items together, for every unit.
        survey: Whether it says what the documents are about.
        questions: Each is answered or counted, as it asks.
        columns: Whose values are counted, such as ``status=open,closed``.
        label_columns: Whose labels new texts get by a label head; the same with two or more.
        again: Whether it takes the place of the bundle that there is, and is paid for anew.
    """

    model_config = ConfigDict(extra="forbid")

    corpus: PublicText
    epsilon: float = Field(2.0, gt=0, le=MOST_EPSILON, allow_inf_nan=False)
    survey: bool = True
    questions: _Lines = []
    columns: _Lines = []
    label_columns: _Lines = []
    again: bool = False

    def requests(self) -> list[Request]:
        """What is asked of the documents, each question once."""
        found = [Request.of(None, question=ABOUT)] if self.survey else []
        found += [Request.of_column(one) for one in self.columns]
        found += [Request.of_column(one, "label-head") for one in self.label_columns]
        return found + [Request.of(None, question=one) for one in dict.fromkeys(self.questions)]


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


@router.get("/v1/owner")
def overview(parts: Using, owner: Owning) -> dict[str, Any]:
    """Corpora, callers, their budgets and the latest job."""
    service, keys, uploads = parts.service, parts.keys, parts.uploads
    corpora = service.open_to(owner)
    closed = {} if keys is None else keys.closed()
    everyone = owner.corpora is None
    callers = [one.name for one in keys.callers()] if keys is not None and everyone else []
    named = {("corpus", name) for name in corpora} | {("caller", name) for name in callers}
    job = parts.jobs.of(owner)
    return {
        "corpora": corpora,
        "closed": [name for name in corpora if name in closed],
        "callers": callers,
        "budgets": [
            service.owned_budget(one, DELTA)
            for one in service.ledger.status()
            if (one.kind, one.name) in named
        ],
        "most_bytes": None if uploads is None else uploads.most_bytes,
        "upload_epsilon": None if uploads is None else uploads.config.epsilon,
        "audits": parts.auditor is not None,
        "publications": parts.published is not None,
        "job": None if job is None else job.view(),
    }


@router.post("/v1/owner/open")
def open_corpus(body: Opening, parts: Using, owner: Owning) -> dict[str, Any]:
    """Open a corpus that was uploaded to other keys: those that name it, or name none."""
    parts.service.corpus(body.corpus, owner)
    if parts.keys is not None:
        parts.keys.open_corpus(body.corpus)
    return {"corpus": body.corpus, "closed": False}


@router.post("/v1/owner/budgets")
def set_budget(body: Budget, parts: Using, owner: Owning) -> dict[str, Any]:
    """Set all budgets of a corpus or a caller, in place of those it had."""
    service, keys = parts.service, parts.keys
    if body.kind == "corpus":
        if body.name == PUBLIC:
            raise Refusal(400, "the public model costs nothing and has no budget", param="name")
        service.corpus(body.name, owner)
    elif owner.corpora is not None:
        raise Refusal(403, "budgets of callers are set by owners of all corpora")
    elif keys is None or body.name not in {one.name for one in keys.callers()}:
        raise Refusal(404, "nobody of that name has a key", param="name")
    given: dict[str, Any] = body.model_dump(exclude={"kind", "name"}) | {body.kind: body.name}
    service.ledger.set_budget(rho=math.inf if body.epsilon is None else None, **given)
    every = {(one.kind, one.name): one for one in service.ledger.status()}
    return service.owned_budget(every[body.kind, body.name], body.delta)


@router.get("/v1/owner/job")
def job(parts: Using, owner: Owning) -> dict[str, Any]:
    """The job under way, or the last one."""
    return _job_of(owner, parts.jobs).view()


@router.post("/v1/owner/job/stop")
def stop(parts: Using, owner: Owning) -> dict[str, Any]:
    """End the job at its next step; what it has stored stays."""
    found = _job_of(owner, parts.jobs)
    parts.jobs.stop()
    return found.view()


def _job_of(owner: Caller, jobs: Jobs) -> Job:
    found = jobs.of(owner)
    if found is None:
        raise Refusal(404, "no job was started yet", code="no_job")
    return found


@router.post("/v1/owner/audits", status_code=202)
async def audit(body: AuditRequest, parts: Using, owner: Owning) -> dict[str, Any]:
    """Audit a corpus in a process beside the server. Nothing is spent."""
    auditor = _auditor_for(body.corpus, parts, owner)
    with parts.jobs.begun("audit", body.corpus, owner) as job:
        settings = parts.service.corpora[body.corpus].settings
        command = auditor.begin(body.corpus, body.question, body.runs, settings)
        parts.jobs.run(job, lambda job: auditor.run(job, command))
    return job.view()


@router.get("/v1/owner/audits/{corpus}")
def report(corpus: str, parts: Using, owner: Owning) -> JSONResponse:
    """Figures and text of the last audit."""
    return JSONResponse(_found(_auditor_for(corpus, parts, owner).report(corpus)))


@router.get(
    "/v1/owner/audits/{corpus}/plot",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}},
)
def plot(corpus: str, parts: Using, owner: Owning) -> Response:
    """The plot of the last audit."""
    found = _found(_auditor_for(corpus, parts, owner).plot(corpus))
    return Response(found, media_type="image/png")


def _auditor_for(corpus: str, parts: ServerParts, owner: Caller) -> Auditor:
    parts.service.corpus(corpus, owner)
    if parts.auditor is None or corpus == PUBLIC:
        raise Refusal(404, "no audits here; use `dpicl-rag audit`", code="no_audits")
    return parts.auditor


def _found(part: T | None) -> T:
    if part is None:
        raise Refusal(404, "this corpus was not audited here yet", code="no_audit")
    return part


@router.post("/v1/owner/publications/plan")
def bundle_plan(body: Publication, parts: Using, owner: Owning) -> dict[str, Any]:
    """What each item costs at most; free, as nothing is searched."""
    _bundle_of(body.corpus, parts, owner)
    asked = parts.service.publisher(body.corpus, owner)
    return plan_publication(*asked, body.requests(), epsilon=body.epsilon).as_dict()


@router.post("/v1/owner/publications", status_code=202)
async def publish_bundle(body: Publication, parts: Using, owner: Owning) -> dict[str, Any]:
    """Publish a bundle beside the requests; stopped between two items it goes on the next time."""
    folder, requests = _bundle_of(body.corpus, parts, owner), body.requests()
    if (folder / MANIFEST).exists() and not body.again:
        told = "this corpus was published; to do so again is another release, and paid for anew"
        raise Refusal(409, told, code="published", param="again")
    asked, admission = parts.service.publisher(body.corpus, owner), parts.admission

    def work(job: Job) -> dict[str, Any]:
        epsilon, again, tell = body.epsilon, body.again, partial(job.at, "Publishing")
        with taking_turns(admission.wanted(math.inf, Event())):
            made = publish(*asked, folder, requests, epsilon=epsilon, again=again, on_progress=tell)
        return {"items": len(made.items), "lost": [*made.lost], "changes": [*made.changes]}

    with parts.jobs.begun("publish", body.corpus, owner) as job:
        parts.jobs.run(job, lambda job: admission.take(partial(work, job)))
    return job.view()


@router.get(
    "/v1/owner/publications/{corpus}",
    response_class=Response,
    responses={200: {"content": {"application/zip": {}}}},
)
def bundle(corpus: str, parts: Using, owner: Owning) -> Response:
    """The bundle of a corpus in one file: unpacked, any machine serves it."""
    try:
        content = Bundle.packed(_bundle_of(corpus, parts, owner))
    except KnowledgeError:
        raise Refusal(404, "this corpus was not published here yet", code="no_bundle") from None
    return Response(content, media_type="application/zip")


def _bundle_of(corpus: str, parts: ServerParts, owner: Caller) -> Path:
    parts.service.counted_corpus(corpus, owner)
    if parts.published is None:
        raise Refusal(404, "no bundles here; use `dpicl-rag publish`", code="no_publications")
    return parts.published / corpus


@router.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
def counted(parts: Using, caller: Asking) -> Response:
    """For Prometheus, with the key of an owner of all corpora: it names those open to it."""
    if caller.role != "owner" or caller.corpora is not None:
        raise Refusal(
            403,
            "this is for owners of all corpora; use a key made with --owner alone",
            code="not_owner",
        )
    return Response(parts.metrics.text(caller), media_type="text/plain; version=0.0.4")
