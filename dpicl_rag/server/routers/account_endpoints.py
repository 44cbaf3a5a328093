"""A caller's account: the models that the key may ask, what is left of budgets, and the memory."""

from typing import Any

from fastapi import APIRouter

from dpicl_rag.knowledge import Entry
from dpicl_rag.server.dependencies import Asking, Using
from dpicl_rag.server.service import PUBLIC

MOST_REMEMBERED = 200
"""Answers of a memory that are shown."""

router = APIRouter()


@router.get("/v1/models")
def models(parts: Using, caller: Asking) -> dict[str, Any]:
    """Corpora as models, and the one that reads no documents."""
    names = [*parts.service.open_to(caller), PUBLIC]
    return {"object": "list", "data": [_model(name) for name in names]}


@router.get("/v1/models/{id}")
def model(id: str, parts: Using, caller: Asking) -> dict[str, Any]:
    """One of them. What the key may not ask is not there."""
    parts.service.corpus(id, caller)
    return _model(id)


def _model(name: str) -> dict[str, Any]:
    """A corpus, or the public model, as an entry of the list."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "dpicl-rag"}


@router.get("/v1/budget")
def budget(parts: Using, caller: Asking) -> dict[str, Any]:
    """Budgets left to the caller, by corpus. Public numbers."""
    service = parts.service
    return {"data": [service.budget(name, caller) for name in service.open_to(caller)]}


@router.get("/v1/memory")
def memory(parts: Using, caller: Asking, model: str | None = None) -> dict[str, Any]:
    """Answers released to the caller before, the newest first. Public to this caller."""
    service = parts.service
    names = [model] if model is not None else service.open_to(caller)
    found = [entry for name in names for entry in service.remembered(name, caller, MOST_REMEMBERED)]
    found.sort(key=lambda entry: entry.time, reverse=True)
    return {"data": [_entry_view(entry) for entry in found[:MOST_REMEMBERED]]}


def _entry_view(entry: Entry) -> dict[str, Any]:
    """An answer that was released before."""
    names = ("question", "answer", "epsilon", "delta", "whole", "edited")
    found = {name: getattr(entry, name) for name in names}
    time, counted = entry.time.isoformat(), bool(entry.numbers)
    return {"model": entry.corpus, **found, "time": time, "counted": counted}


@router.get("/v1/caller")
def who(parts: Using, caller: Asking) -> dict[str, Any]:
    """The caller: the name of the key, None where no keys are in use; and the model."""
    return {
        "name": caller.name,
        "role": caller.role,
        "keys": parts.keys is not None,
        "toy": parts.service.is_toy,
    }
