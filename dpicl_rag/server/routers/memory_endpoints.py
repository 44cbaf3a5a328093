"""The memory of answers that were released to a caller."""

from typing import Any

from fastapi import APIRouter

from dpicl_rag.server import views
from dpicl_rag.server.services import Asking, Using

MOST_REMEMBERED = 200
"""Answers of a memory that are shown."""

router = APIRouter()


@router.get("/v1/memory")
def memory(services: Using, caller: Asking, model: str | None = None) -> dict[str, Any]:
    """Answers released to the caller before, the newest first. Public to this caller."""
    catalogue = services.catalogue
    names = [model] if model is not None else catalogue.open_to(caller)
    found = [
        entry for name in names for entry in catalogue.remembered(name, caller, MOST_REMEMBERED)
    ]
    found.sort(key=lambda entry: entry.time, reverse=True)
    return {"data": [views.remembered(entry) for entry in found[:MOST_REMEMBERED]]}
