"""The caller, as the page shows it."""

from typing import Any

from fastapi import APIRouter

from dpicl_rag.server.services import Asking, Using

router = APIRouter()


@router.get("/v1/caller")
def who(services: Using, caller: Asking) -> dict[str, Any]:
    """The caller: the name of the key, None where no keys are in use; and the model."""
    return {
        "name": caller.name,
        "role": caller.role,
        "keys": services.keys is not None,
        "toy": services.catalogue.is_toy,
    }
