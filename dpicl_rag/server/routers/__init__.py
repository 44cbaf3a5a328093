"""Endpoints: a file for each group, and its name in this list.

What declares neither ``Asking`` nor ``Owning`` (``services.py``) is open to everybody.
"""

from importlib import import_module

from fastapi import APIRouter

_FILES = (
    "model_endpoints",
    "completion_endpoints",
    "survey_endpoints",
    "tool_endpoints",
    "budget_endpoints",
    "memory_endpoints",
    "caller_endpoints",
    "owner_endpoints",
    "upload_endpoints",
    "job_endpoints",
    "audit_endpoints",
    "page_endpoints",
    "health_endpoints",
    "metrics_endpoints",
)

ROUTERS: list[APIRouter] = [import_module(f"{__name__}.{file}").router for file in _FILES]
