"""Metrics for Prometheus."""

from fastapi import APIRouter
from fastapi.responses import Response

from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.services import Asking, Using

router = APIRouter()


@router.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
def counted(services: Using, caller: Asking) -> Response:
    """For Prometheus, with the key of an owner of all corpora: it names those open to it."""
    if caller.role != "owner" or caller.corpora is not None:
        raise Refusal(
            403,
            "this is for owners of all corpora; use a key made with --owner alone",
            code="not_owner",
        )
    return Response(services.metrics.text(caller), media_type="text/plain; version=0.0.4")
