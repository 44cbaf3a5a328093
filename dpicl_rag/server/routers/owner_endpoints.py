"""An owner's corpora: an overview of them, and opening them to other keys.

Responses to owners may follow from the documents, here and in the files of uploads, jobs and
audits: they are for their owner.
"""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from dpicl_rag.server import views
from dpicl_rag.server.services import Owning, Using

router = APIRouter(prefix="/v1/owner")


class Opening(BaseModel):
    """A corpus to open to other keys.

    Attributes:
        corpus: Its name.
    """

    corpus: str = Field(min_length=1, max_length=512)


@router.get("")
def overview(services: Using, owner: Owning) -> dict[str, Any]:
    """Corpora, callers, their budgets and the latest job."""
    catalogue, keys, uploads = services.catalogue, services.keys, services.uploads
    corpora = catalogue.open_to(owner)
    closed = {} if keys is None else keys.closed()
    everyone = owner.corpora is None
    callers = [one.name for one in keys.callers()] if keys is not None and everyone else []
    named = {("corpus", name) for name in corpora} | {("caller", name) for name in callers}
    job = services.jobs.of(owner)
    return {
        "corpora": corpora,
        "closed": [name for name in corpora if name in closed],
        "callers": callers,
        "budgets": [
            views.owned(catalogue, one)
            for one in catalogue.ledger.status()
            if (one.kind, one.name) in named
        ],
        "most_bytes": None if uploads is None else uploads.most_bytes,
        "upload_epsilon": None if uploads is None else uploads.config.epsilon,
        "audits": services.auditor is not None,
        "job": None if job is None else job.view(),
    }


@router.post("/open")
def open_corpus(body: Opening, services: Using, owner: Owning) -> dict[str, Any]:
    """Open a corpus that was uploaded to other keys: those that name it, or name none."""
    services.catalogue.served(body.corpus, owner)
    if services.keys is not None:
        services.keys.open_corpus(body.corpus)
    return {"corpus": body.corpus, "closed": False}
