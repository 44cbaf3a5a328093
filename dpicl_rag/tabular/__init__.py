"""Tables: private rows as demonstrations for prompts, after DP-TabICL (Carey et al. 2024).

Names are imported when first used, so that ``import dpicl_rag.tabular`` loads little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpicl_rag._packaged import importing

if TYPE_CHECKING:
    from dpicl_rag.tabular.aggregates import Aggregates, release_aggregates
    from dpicl_rag.tabular.fresh_rows import FreshCharge, FreshRows
    from dpicl_rag.tabular.local_privacy import (
        Report,
        bits_from_reports,
        local_report,
        tables_from_reports,
    )
    from dpicl_rag.tabular.noisy_tables import NaiveBayes, NoisyTables, release_tables
    from dpicl_rag.tabular.schema import (
        Category,
        Label,
        Number,
        Schema,
        examples,
        prompt,
        serialise_row,
    )

__getattr__, __dir__ = importing(__name__)

__all__ = [
    "Aggregates",
    "Category",
    "FreshCharge",
    "FreshRows",
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
