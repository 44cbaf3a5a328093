"""How many experts published methods need for one answer, and what a search leaves of a budget.

``python -m benchmarks.rival_budget`` prints how many experts must all say the same, so that it is
released nine times in ten: exact, without a model, at delta 1e-5, the search free for all. Rivals
are taken at their best. Each expert gives all of its probability to the right word; each charge is
the least that is known for the mechanism (zCDP over tokens), not the paper's. A name has six tokens
that the public model does not know, of a vocabulary of 49,152.

The search is charged as one Gaussian mechanism of the same rho, mu = sqrt(2 rho): its noise is the
discrete Gaussian's. Both compositions are exact for the pair, so nothing of the rivals' budget is
lost to a loose sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from dpicl_rag.accounting import DIRECT, epsilon_to_rho
from dpicl_rag.accounting.conversion import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_research.keyword_aggregation import KeywordRelease

DELTA = 1e-5
EPSILONS = (8.0, 4.0, 2.0, 1.0)
ENOUGH = 0.9
VOCABULARY = 49_152  # of the packaged model
NAME_TOKENS = 6
_STEPS = 60  # of a bisection


def ours(question: str, epsilon: float) -> int:
    """Units of an answer that no ledger books, of a model that can be silent."""
    keys = answer_keys(question)
    config = PrivacyConfig.create(epsilon=epsilon, delta=DELTA, agreement="only")
    plan = answer_plan(config, DIRECT, 0.0, 0, keys=keys.most, domain=keys.domain)
    assert plan.units_to_agree is not None
    return plan.units_to_agree


def keywords(epsilon: float, words: int) -> int:
    """Replies that DP-KSA needs to release some words, by the charge of `KeywordRelease`."""
    release = KeywordRelease.within(epsilon, DELTA)
    said = frozenset(f"word{at}" for at in range(words))
    right = tuple(sorted(said))

    def released(experts: int) -> float:
        return release.distribution([said] * experts).get(right, 0.0)

    return _least(released)


def product_of_experts(epsilon: float, tokens: int, candidates: int) -> int:
    """Experts of Private PoEtry, and of Sarus DP-RAG: an exponential mechanism for each token.

    Experts add their utilities, whose range is what a token pays for; all others share a uniform
    base. One draw may spend epsilon as it is, several share rho: range^2 / 8 each.
    """
    reach = epsilon if tokens == 1 else math.sqrt(8 * epsilon_to_rho(epsilon, DELTA) / tokens)
    return _least(lambda n: (1 + (candidates - 1) * math.exp(-n * reach)) ** -tokens)


def token_votes(epsilon: float, tokens: int) -> int:
    """Experts of Koga, Wu, Chaudhuri 2024: votes on each token, by the limited domain mechanism.

    Durfee and Rogers 2019: only words that have votes are candidates, beside "none" at a threshold
    of 1 + log(1 / delta') / epsilon'. Half of delta is for the thresholds.
    """
    rho = epsilon_to_rho(epsilon, DELTA / 2)
    reach = epsilon if tokens == 1 else math.sqrt(8 * rho / tokens)
    threshold = 1 + math.log(2 * tokens / DELTA) / reach
    return _least(lambda n: (1 + math.exp(-(n - threshold) * reach)) ** -tokens)


def _least(released: Callable[[int], float]) -> int:
    experts = 1
    while released(experts) < ENOUGH:
        experts += 1
    return experts


def table() -> Table:
    """Experts that must say the same, by method and epsilon."""
    found = Table(title="experts that must say the same", title_justify="left")
    for name in ("", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)):
        found.add_column(name)
    name = f"a name of {NAME_TOKENS} tokens"
    rows: dict[str, Callable[[float], int]] = {
        f"{name}: dpicl-rag": lambda e: ours("Who is it?", e),
        f"{name}: DP-KSA": lambda e: keywords(e, 2),
        f"{name}: Private PoEtry, Sarus DP-RAG": lambda e: product_of_experts(
            e, NAME_TOKENS, VOCABULARY
        ),
        f"{name}: Koga et al., every token voted": lambda e: token_votes(e, NAME_TOKENS),
        "yes or no: dpicl-rag, silent where nobody says": lambda e: ours("Is it open?", e),
        "yes or no: DP-KSA": lambda e: keywords(e, 1),
        "yes or no: Private PoEtry, always one of both": lambda e: product_of_experts(e, 1, 2),
        "yes or no: Koga et al.": lambda e: token_votes(e, 1),
    }
    for row, needed in rows.items():
        found.add_row(row, *(str(needed(epsilon)) for epsilon in EPSILONS))
    return found


def beside_gaussian(epsilon: float, delta: float, search_rho: float) -> float:
    """The epsilon, at the same delta, of a Gaussian mechanism beside a search: mus add as squares.

    Args:
        epsilon: Of both together.
        delta: Of both together.
        search_rho: zCDP rho of the search.

    Returns:
        0 where the search takes everything.
    """
    left = gaussian_mu(epsilon, delta) ** 2 - 2 * search_rho
    return gaussian_epsilon(math.sqrt(left), delta) if left > 0 else 0.0


def beside_any(epsilon: float, delta: float, own: float, search_rho: float) -> float:
    """The epsilon of any (epsilon, ``own``)-DP mechanism beside a search.

    The worst such mechanism is randomised response: with ``own`` it tells all, else its loss is
    plus or minus its epsilon (Kairouz, Oh, Viswanath 2015). The loss of the search adds to that.

    Args:
        epsilon: Of both together.
        delta: Of both together.
        own: Part of delta that the mechanism takes.
        search_rho: zCDP rho of the search.

    Returns:
        0 where the search takes everything.
    """
    mu = math.sqrt(2 * search_rho)

    def spent(rival: float) -> float:
        more = 1 / (1 + math.exp(-rival))
        high, low = (gaussian_delta(mu, epsilon - sign * rival) for sign in (1, -1))
        return own + (1 - own) * (more * high + (1 - more) * low)

    if spent(0.0) > delta:
        return 0.0
    low, high = 0.0, epsilon
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= delta else (low, middle)
    return low


if __name__ == "__main__":
    Console().print(table())
