"""Models: the corpora that a key may ask, and the one that reads no documents."""

from typing import Any

from fastapi import APIRouter

from dpicl_rag.server import protocol
from dpicl_rag.server.catalogue import PUBLIC
from dpicl_rag.server.services import Asking, Using

router = APIRouter(prefix="/v1/models")


@router.get("")
def models(services: Using, caller: Asking) -> dict[str, Any]:
    """Corpora as models, and the one that reads no documents."""
    names = [*services.catalogue.open_to(caller), PUBLIC]
    return {"object": "list", "data": [protocol.model(name) for name in names]}


@router.get("/{id}")
def model(id: str, services: Using, caller: Asking) -> dict[str, Any]:
    """One of them. What the key may not ask is not there."""
    services.catalogue.served(id, caller)
    return protocol.model(id)
