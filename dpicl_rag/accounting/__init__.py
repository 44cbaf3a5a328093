"""Costs of answers: events, accountants, conversions, budgets and the noise that they pay for.

Loads neither torch nor numpy or scipy before they are needed.
"""

from dpicl_rag.accounting.accountants import (
    Accountant,
    PrivacyLossAccountant,
    PureAccountant,
    RenyiAccountant,
    ZeroConcentratedAccountant,
)
from dpicl_rag.accounting.budget import Budget
from dpicl_rag.accounting.calibration import (
    bounded_range_strength,
    epsilon_for,
    gaussian_multiplier,
    largest_strength,
    pure_strength,
    strength_for,
    subsampled_sigma,
)
from dpicl_rag.accounting.conversion import (
    DELTA,
    bounded_range_to_rho,
    epsilon_to_rho,
    renyi_to_delta,
    renyi_to_epsilon,
    rho_to_delta,
    rho_to_epsilon,
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
from dpicl_rag.accounting.pure_dp import zcdp
from dpicl_rag.accounting.renyi_curves import renyi_curve
from dpicl_rag.accounting.stability import (
    DIRECT,
    RANDOM_GROUPS,
    SQRT_2,
    Adjacency,
    Stability,
    require_individual,
)
from dpicl_rag.accounting.subsampling import FixedSizeSubsampled, SubsampledSum

__all__ = [
    "DELTA",
    "DIRECT",
    "RANDOM_GROUPS",
    "SQRT_2",
    "Accountant",
    "Adjacency",
    "BoundedRange",
    "Budget",
    "Composed",
    "Event",
    "FixedSizeSubsampled",
    "Gaussian",
    "PoissonSubsampled",
    "PrivacyLossAccountant",
    "PureAccountant",
    "PureDP",
    "RenyiAccountant",
    "SelfComposed",
    "Stability",
    "SubsampledSum",
    "ZeroConcentrated",
    "ZeroConcentratedAccountant",
    "bounded_range_strength",
    "bounded_range_to_rho",
    "epsilon_for",
    "epsilon_to_rho",
    "gaussian_multiplier",
    "largest_strength",
    "pure_strength",
    "renyi_curve",
    "renyi_to_delta",
    "renyi_to_epsilon",
    "require_individual",
    "rho_to_delta",
    "rho_to_epsilon",
    "strength_for",
    "subsampled_sigma",
    "zcdp",
]
