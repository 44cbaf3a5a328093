"""Classification methods of the literature, each with its adjacency and its exact charge.

Names are imported when first used, so that ``import dpicl_rag.methods`` loads no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl_rag.methods.base import Calibrated, Method, Views
    from dpicl_rag.methods.calibration import epsilon_for
    from dpicl_rag.methods.layouts import (
        ContentFree,
        Groups,
        Layout,
        OneEach,
        Subsampled,
        Together,
        ZeroShot,
    )
    from dpicl_rag.methods.registry import METHODS, make

_HOMES = {
    "METHODS": "registry",
    "Calibrated": "base",
    "ContentFree": "layouts",
    "Groups": "layouts",
    "Layout": "layouts",
    "Method": "base",
    "OneEach": "layouts",
    "Subsampled": "layouts",
    "Together": "layouts",
    "Views": "base",
    "ZeroShot": "layouts",
    "epsilon_for": "calibration",
    "make": "registry",
}

__all__ = [
    "METHODS",
    "Calibrated",
    "ContentFree",
    "Groups",
    "Layout",
    "Method",
    "OneEach",
    "Subsampled",
    "Together",
    "Views",
    "ZeroShot",
    "epsilon_for",
    "make",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
