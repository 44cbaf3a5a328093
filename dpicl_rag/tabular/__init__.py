"""Tables: private rows as demonstrations for prompts, after DP-TabICL (Carey et al. 2024).

Names are imported when first used, so that ``import dpicl_rag.tabular`` loads little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl_rag.tabular.aggregates import Aggregates, release_aggregates
    from dpicl_rag.tabular.local import (
        Report,
        bits_from_reports,
        local_report,
        tables_from_reports,
    )
    from dpicl_rag.tabular.naive_bayes import NaiveBayes
    from dpicl_rag.tabular.schema import Category, Label, Number, Schema
    from dpicl_rag.tabular.serialise import examples, prompt, serialise_row
    from dpicl_rag.tabular.tables import NoisyTables, release_tables

_HOMES = {
    "aggregates": "Aggregates release_aggregates",
    "local": "Report bits_from_reports local_report tables_from_reports",
    "naive_bayes": "NaiveBayes",
    "schema": "Category Label Number Schema",
    "serialise": "examples prompt serialise_row",
    "tables": "NoisyTables release_tables",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Aggregates",
    "Category",
    "Label",
    "NaiveBayes",
    "NoisyTables",
    "Number",
    "Report",
    "Schema",
    "bits_from_reports",
    "examples",
    "local_report",
    "prompt",
    "release_aggregates",
    "release_tables",
    "serialise_row",
    "tables_from_reports",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
