"""This library as it is by default."""

from benchmarks.leaderboard.by_settings import Defaults
from benchmarks.rival_budget import ours

METHOD = Defaults(
    "dpicl-rag: agreement",
    "docs/proofs.md; the defaults: a sentence that enough documents say, else tokens",
    {},
    lambda setting, epsilon: ours("Who is it?", epsilon),
)
