"""Classification methods of the literature, each with its adjacency and its exact charge."""

from dpicl_rag.methods.base import (
    Calibrated,
    ContentFree,
    Groups,
    Layout,
    Method,
    OneEach,
    OnePrompt,
    Subsampled,
    Views,
    ZeroShot,
)
from dpicl_rag.methods.registry import METHODS, make

__all__ = [
    "METHODS",
    "Calibrated",
    "ContentFree",
    "Groups",
    "Layout",
    "Method",
    "OneEach",
    "OnePrompt",
    "Subsampled",
    "Views",
    "ZeroShot",
    "make",
]
