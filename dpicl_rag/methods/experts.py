"""From a context to the rows of experts: one each, or random groups; and back from the views."""

from __future__ import annotations

import torch

from dpicl_rag.accounting import _check
from dpicl_rag.accounting.stability import Stability
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.experts import ONE_EACH, RANDOM_GROUPS
from dpicl_rag.methods.base import Views
from dpicl_rag.methods.layouts import Groups, Layout, OneEach


def expert_rows(experts: int, group_size: int) -> OneEach | Groups:
    """One row per unit, or as many random groups as hold ``group_size`` units on average."""
    _check.count("experts", experts)
    return OneEach() if group_size == 1 else Groups(max(1, experts // group_size))


def stage(group_size: int) -> Stability:
    """Stability from units to the rows of ``expert_rows``."""
    return ONE_EACH if group_size == 1 else RANDOM_GROUPS


def the_view(views: Views, kind: type[Layout]) -> torch.Tensor:
    """The rows of the one layout of a kind, float64 [rows, labels].

    Raises:
        ConfigurationError: There is none, or more than one.
    """
    found = [rows for layout, rows in views.items() if isinstance(layout, kind)]
    if len(found) != 1:
        raise ConfigurationError(
            f"a method needs exactly one {kind.__name__} view; give the rows of its own layouts"
        )
    return found[0].double()
