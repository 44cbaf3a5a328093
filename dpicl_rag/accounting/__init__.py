"""What an answer costs: conversions, calibration, filters, events and accountants.

Names are imported when first used, so that ``import dpicl_rag.accounting`` loads neither torch
nor scipy nor dp_accounting.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl_rag.accounting.accountants import (
        Accountant,
        PrivacyLossAccountant,
        PureAccountant,
        RenyiAccountant,
        ZeroConcentratedAccountant,
    )
    from dpicl_rag.accounting.calibration import (
        exact_strength_for,
        largest_strength,
        strength_for,
    )
    from dpicl_rag.accounting.conversion import (
        bounded_range_to_rho,
        epsilon_to_rho,
        renyi_to_delta,
        renyi_to_epsilon,
        rho_to_delta,
        rho_to_epsilon,
    )
    from dpicl_rag.accounting.curves import (
        renyi_curve,
    )
    from dpicl_rag.accounting.events import (
        BoundedRange,
        Composed,
        Event,
        Gaussian,
        PoissonSubsampled,
        PureDP,
        SelfComposed,
        ZeroConcentrated,
    )
    from dpicl_rag.accounting.filters import (
        FixedFilter,
        IndividualFilter,
    )
    from dpicl_rag.accounting.stability import (
        DIRECT,
        Adjacency,
        Stability,
        require_individual,
    )

_HOME = {
    "Accountant": "accountants",
    "Adjacency": "stability",
    "BoundedRange": "events",
    "Composed": "events",
    "DIRECT": "stability",
    "Event": "events",
    "FixedFilter": "filters",
    "Gaussian": "events",
    "IndividualFilter": "filters",
    "PoissonSubsampled": "events",
    "PrivacyLossAccountant": "accountants",
    "PureAccountant": "accountants",
    "PureDP": "events",
    "RenyiAccountant": "accountants",
    "SelfComposed": "events",
    "Stability": "stability",
    "ZeroConcentrated": "events",
    "ZeroConcentratedAccountant": "accountants",
    "bounded_range_to_rho": "conversion",
    "epsilon_to_rho": "conversion",
    "exact_strength_for": "calibration",
    "largest_strength": "calibration",
    "renyi_curve": "curves",
    "renyi_to_delta": "conversion",
    "renyi_to_epsilon": "conversion",
    "require_individual": "stability",
    "rho_to_delta": "conversion",
    "rho_to_epsilon": "conversion",
    "strength_for": "calibration",
}

__all__ = [
    "DIRECT",
    "Accountant",
    "Adjacency",
    "BoundedRange",
    "Composed",
    "Event",
    "FixedFilter",
    "Gaussian",
    "IndividualFilter",
    "PoissonSubsampled",
    "PrivacyLossAccountant",
    "PureAccountant",
    "PureDP",
    "RenyiAccountant",
    "SelfComposed",
    "Stability",
    "ZeroConcentrated",
    "ZeroConcentratedAccountant",
    "bounded_range_to_rho",
    "epsilon_to_rho",
    "exact_strength_for",
    "largest_strength",
    "renyi_curve",
    "renyi_to_delta",
    "renyi_to_epsilon",
    "require_individual",
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
