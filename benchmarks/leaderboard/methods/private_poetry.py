"""Private PoEtry: the product of experts."""

from benchmarks.leaderboard.by_settings import TokenByToken
from benchmarks.lifetime import plain_product
from benchmarks.rival_budget import VOCABULARY, product_of_experts

METHOD = TokenByToken(
    "Private PoEtry",
    "Private PoEtry, the private product of experts: clipped log-probabilities, uniform base",
    {},
    lambda setting, epsilon: product_of_experts(epsilon, setting.max_tokens, VOCABULARY),
    plain_product,
)
