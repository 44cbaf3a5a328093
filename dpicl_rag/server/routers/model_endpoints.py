"""Models: the corpora that a key may ask, and the one that reads no documents."""

from typing import Any

from fastapi import APIRouter

from dpicl_rag.server.catalogue import PUBLIC
from dpicl_rag.server.services import Asking, Using

router = APIRouter(prefix="/v1/models")


@router.get("")
def models(services: Using, caller: Asking) -> dict[str, Any]:
    """Corpora as models, and the one that reads no documents."""
    names = [*services.catalogue.open_to(caller), PUBLIC]
    return {"object": "list", "data": [_model(name) for name in names]}


@router.get("/{id}")
def model(id: str, services: Using, caller: Asking) -> dict[str, Any]:
    """One of them. What the key may not ask is not there."""
    services.catalogue.served(id, caller)
    return _model(id)


def _model(name: str) -> dict[str, Any]:
    """A corpus, or the public model, as an entry of the list."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "dpicl-rag"}
