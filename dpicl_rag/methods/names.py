"""Names of methods as options of calls and commands. Loads nothing else."""

from __future__ import annotations

from typing import Literal

OverDocuments = Literal[
    "poe",
    "poe-prior",
    "votes",
    "votes-gaussian",
    "permute-and-flip",
    "permute-and-flip-votes",
]
"""Methods that need one row per expert, and its prior at most. Groups are a setting of the path."""
