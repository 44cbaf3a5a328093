"""This library, which draws every token."""

from benchmarks.leaderboard.by_settings import Defaults

METHOD = Defaults(
    "dpicl-rag: tokens",
    "docs/proofs.md; surplus of each document, each unit pays what it reveals",
    {"agreement": "off"},
)
