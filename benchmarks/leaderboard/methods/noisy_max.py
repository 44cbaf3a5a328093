"""The noisy maximum of votes for every token."""

from benchmarks.leaderboard.by_settings import TokenByToken
from benchmarks.lifetime import noisy_max
from benchmarks.rival_budget import VOCABULARY, product_of_experts

METHOD = TokenByToken(
    "noisy max of votes",
    "Report noisy max with Gumbel noise (Durfee, Rogers 2019, Lemma 4.2), each document one vote",
    {},
    lambda setting, epsilon: product_of_experts(epsilon, setting.max_tokens, VOCABULARY),
    noisy_max,
)
