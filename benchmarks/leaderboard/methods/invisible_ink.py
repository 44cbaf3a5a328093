"""InvisibleInk: the mean of clipped differences to the public model."""

from benchmarks.leaderboard.by_settings import TokenByToken
from benchmarks.lifetime import invisible_ink

METHOD = TokenByToken(
    "InvisibleInk",
    "Vinod, Pillutla, Thakurta 2025, arXiv 2507.02974: DClip and the mean, whole vocabulary",
    {},
    shares=invisible_ink,
)
