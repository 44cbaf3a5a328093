"""Health of the process. Open to everybody: it names nothing."""

from fastapi import APIRouter

from dpicl_rag.server.services import Using

router = APIRouter()


@router.get("/health")
def health() -> dict[str, str]:
    """Whether the process lives."""
    return {"status": "ok"}


@router.get("/ready")
def ready(services: Using) -> dict[str, str]:
    """Whether it takes questions."""
    services.admission.check()
    services.catalogue.check()
    if services.keys is not None:
        services.keys.check()
    return {"status": "ready"}
