"""Endpoints: a file for each group, and its router in this list.

What declares neither ``Asking`` nor ``Owning`` (``dependencies.py``) is open to everybody.
"""

from fastapi import APIRouter

from dpicl_rag.server.routers import (
    account_endpoints,
    owner_endpoints,
    public_endpoints,
    question_endpoints,
    upload_endpoints,
)

ROUTERS: list[APIRouter] = [
    question_endpoints.router,
    account_endpoints.router,
    owner_endpoints.router,
    upload_endpoints.router,
    public_endpoints.router,
]
