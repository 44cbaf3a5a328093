"""The job that an owner has started: its state, and its end."""

from typing import Any

from fastapi import APIRouter

from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.jobs import Job, Jobs
from dpicl_rag.server.services import Owning, Using

router = APIRouter(prefix="/v1/owner/job")


@router.get("")
def job(services: Using, owner: Owning) -> dict[str, Any]:
    """The job under way, or the last one."""
    return _job_of(owner, services.jobs).view()


@router.post("/stop")
def stop(services: Using, owner: Owning) -> dict[str, Any]:
    """End the job at its next step; what it has stored stays."""
    found = _job_of(owner, services.jobs)
    services.jobs.stop()
    return found.view()


def _job_of(owner: Caller, jobs: Jobs) -> Job:
    found = jobs.of(owner)
    if found is None:
        raise Refusal(404, "no job was started yet", code="no_job")
    return found
