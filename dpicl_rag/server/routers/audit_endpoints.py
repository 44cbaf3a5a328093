"""Audits of corpora: starting one, and its report."""

from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.audits import Auditor
from dpicl_rag.server.catalogue import PUBLIC
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.services import Owning, Services, Using

T = TypeVar("T")

router = APIRouter(prefix="/v1/owner/audits")


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


@router.post("", status_code=202)
async def audit(body: AuditRequest, services: Using, owner: Owning) -> dict[str, Any]:
    """Audit a corpus in a process beside the server. Nothing is spent."""
    auditor = _auditor_for(body.corpus, services, owner)
    with services.jobs.begun("audit", body.corpus, owner) as job:
        settings = services.catalogue.corpora[body.corpus].settings
        command = auditor.begin(body.corpus, body.question, body.runs, settings)
        services.jobs.run(job, lambda job: auditor.run(job, command))
    return job.view()


@router.get("/{corpus}")
def report(corpus: str, services: Using, owner: Owning) -> JSONResponse:
    """Figures and text of the last audit."""
    return JSONResponse(_found(_auditor_for(corpus, services, owner).report(corpus)))


@router.get(
    "/{corpus}/plot",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}},
)
def plot(corpus: str, services: Using, owner: Owning) -> Response:
    """The plot of the last audit."""
    found = _found(_auditor_for(corpus, services, owner).plot(corpus))
    return Response(found, media_type="image/png")


def _auditor_for(corpus: str, services: Services, owner: Caller) -> Auditor:
    services.catalogue.served(corpus, owner)
    if services.auditor is None or corpus == PUBLIC:
        raise Refusal(404, "no audits here; use `dpicl-rag audit`", code="no_audits")
    return services.auditor


def _found(part: T | None) -> T:
    if part is None:
        raise Refusal(404, "this corpus was not audited here yet", code="no_audit")
    return part
