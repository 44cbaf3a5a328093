"""What an answer costs: conversions, calibration, filters, events and accountants.

Names are imported when first used, so that ``import dpicl_rag.accounting`` loads neither torch
nor scipy nor dp_accounting.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl_rag.accounting.calibration import exact_strength_for, strength_for
    from dpicl_rag.accounting.conversion import (
        bounded_range_to_rho,
        epsilon_to_rho,
        renyi_to_delta,
        renyi_to_epsilon,
        rho_to_delta,
        rho_to_epsilon,
    )
    from dpicl_rag.accounting.filters import FixedFilter, IndividualFilter
    from dpicl_rag.accounting.stability import Adjacency, Stability

_HOME = {
    "Adjacency": "stability",
    "FixedFilter": "filters",
    "IndividualFilter": "filters",
    "Stability": "stability",
    "bounded_range_to_rho": "conversion",
    "epsilon_to_rho": "conversion",
    "exact_strength_for": "calibration",
    "renyi_to_delta": "conversion",
    "renyi_to_epsilon": "conversion",
    "rho_to_delta": "conversion",
    "rho_to_epsilon": "conversion",
    "strength_for": "calibration",
}

__all__ = [
    "Adjacency",
    "FixedFilter",
    "IndividualFilter",
    "Stability",
    "bounded_range_to_rho",
    "epsilon_to_rho",
    "exact_strength_for",
    "renyi_to_delta",
    "renyi_to_epsilon",
    "rho_to_delta",
    "rho_to_epsilon",
    "strength_for",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
