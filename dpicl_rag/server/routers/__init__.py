"""Endpoints: a file for each group, and its router in this list.

An endpoint that declares neither ``Asking`` nor ``Owning`` is open to everybody.
"""

from dpicl_rag.server.routers import (
    audit_endpoints,
    budget_endpoints,
    caller_endpoints,
    completion_endpoints,
    health_endpoints,
    job_endpoints,
    memory_endpoints,
    metrics_endpoints,
    model_endpoints,
    owner_endpoints,
    page_endpoints,
    upload_endpoints,
)

ROUTERS = (
    model_endpoints.router,
    completion_endpoints.router,
    budget_endpoints.router,
    memory_endpoints.router,
    caller_endpoints.router,
    owner_endpoints.router,
    upload_endpoints.router,
    job_endpoints.router,
    audit_endpoints.router,
    page_endpoints.router,
    health_endpoints.router,
    metrics_endpoints.router,
)
