"""Plans of answers and labels: the shares of their parts, and the strength of their draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from dpicl_rag.accounting import (
    DIRECT,
    RANDOM_GROUPS,
    Budget,
    Stability,
    bounded_range_strength,
    epsilon_to_rho,
    require_individual,
    strength_for,
)
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.accounting.prices import Price
from dpicl_rag.answering.ladder import Domain, Ladder
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.support import SupportCount
from dpicl_rag.configuration import PrivacyConfig, UtilityName
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import rounded_up
from dpicl_rag.mechanisms.selection import ExponentialMechanism, Mechanism
from dpicl_rag.mechanisms.utilities import (
    Likeliest,
    LogProb,
    LogRatio,
    Sufficient,
    Surplus,
    Utility,
    Vote,
)
from dpicl_rag.mechanisms.value_counts import ValueCounts
from dpicl_rag.retrieval.base import NoisyCount
from dpicl_rag.retrieval.search import Search

# Something is left for tokens where counts of support take much.
_MOST_OF_AGREEMENT = 0.98

# Nats that all experts together add to a token at most, where their number is known; and what they
# must be able to add for any word to be carried. With less the public answer is useless.
_MOST_NATS, _LEAST_NATS = 40.0, 6.0

_SEARCH = "the units near to the question, and their number"

LabelMethod = Callable[[Budget], tuple[Mechanism, bool]]
"""Makes a mechanism for a budget, and says whether experts are read without a question too."""


def with_agreement(
    config: PrivacyConfig,
    stability: Stability,
    *,
    speaks: bool,
    silent: bool = False,
    booked: bool = False,
) -> PrivacyConfig:
    """The settings of one answer: whether experts are asked for whole sentences is decided.

    Args:
        config: Public settings.
        stability: From the corpus to the units that are found.
        speaks: Whether rows of the engine can go on each by itself.
        silent: Whether experts can say that their document does not tell. Where they do not agree
            then, no token is drawn: the public row says nothing, too.
        booked: Whether a ledger books it. Nor is any drawn then: tokens cost the whole price of an
            answer, and few of those are right (benchmarks/README.md).

    Raises:
        ConfigurationError: The settings ask for sentences and cannot have them, or do not fit the
            stability.
    """
    if config.agreement in ("auto", "only") and not speaks:
        raise ConfigurationError(
            "experts of this engine cannot answer each by itself (SpeakingRows, docs/engines.md); "
            "leave agreement out, or use 'off'"
        )
    if config.only_gaussian and config.agreement in ("auto", "off"):
        raise ConfigurationError(
            "the budget is for Gaussian noise alone, and words are drawn otherwise; leave "
            "agreement out, or set the budget anew without --gaussian"
        )
    if config.agreement is not None:
        return config
    # Where all units pay the same, all would pay for every count of the ladder.
    asks = speaks and accounts_individually(config, _to_experts(config, stability))
    only = silent or booked or config.only_gaussian
    agreement = "off" if not asks else "only" if only else "auto"
    return config.model_copy(update={"agreement": agreement})


def accounts_individually(config: PrivacyConfig, stability: Stability) -> bool:
    """True where each unit pays for what it reveals, and not all the same.

    Args:
        config: Public settings.
        stability: From the corpus to the experts.

    Raises:
        ConfigurationError: The settings ask for it, and the stability does not allow it.
    """
    if config.accounting == "individual":
        require_individual(stability, config.adjacency)
    return stability.individual_under(config.adjacency) and config.accounting != "fixed"


def planned_answer(
    config: PrivacyConfig,
    search: Search,
    *,
    booked: bool,
    proposed: bool = False,
    keys: int | None = None,
    domain: Domain = (),
) -> tuple[Search, Plan[Mechanism]]:
    """The search of an answer with the noise that its share pays for, and the answer's plan.

    Args:
        config: Public settings, see `with_agreement`.
        search: Finds its units; noise that was set stays.
        booked: Whether a ledger books the answer.
        proposed: Whether public knowledge proposes an answer, which is counted too.
        keys: Of one unit, at most, where keys alone are counted and not whole sentences first.
        domain: All keys that there may be, the likelier ones first; nothing where no list has them.
    """
    part = SHARES.search_beside_agreement if config.agreement == "auto" else 1.0
    if config.agreement == "only" or proposed:
        part = SHARES.search_before_counts
    search = search.within(part * config.rho(booked=booked), config.adjacency)
    if config.only_gaussian:
        search = search.from_fine_grid()
    price = search.rho(config.adjacency)
    # A proposal, and what is drawn.
    counts = int(proposed) + int(config.agreement != "only")
    return search, answer_plan(
        config, search.stability, price, counts, booked=booked, keys=keys, domain=domain
    )


def answer_plan(
    config: PrivacyConfig,
    stability: Stability,
    search_rho: float,
    counts: int = 1,
    *,
    booked: bool = False,
    keys: int | None = None,
    domain: Domain = (),
) -> Plan[Mechanism]:
    """The plan of an answer of up to ``max_tokens`` draws.

    Args:
        config: Public settings, see `with_agreement`.
        stability: From the corpus to the units that are found.
        search_rho: zCDP rho that the search costs any unit at most.
        counts: Of support, at most.
        booked: Whether a ledger books what thresholds cost.
        keys: See `planned_answer`.
        domain: See `planned_answer`.

    Raises:
        ConfigurationError: The settings do not fit the stability, or cost more than the budget.
    """
    assert config.agreement is not None
    whole = config.rho(booked=booked)
    support = None
    if config.unsupported != "ignore" and counts:
        moved = sum(_to_experts(config, stability).moved(config.adjacency))
        part = 1.0 if config.agreement == "off" else SHARES.support_beside_agreement
        share = part * SHARES.counting(whole)
        support = SupportCount.within(share, moved, fine=config.only_gaussian)
    beside = search_rho + (0.0 if support is None else counts * support.rho)
    delta = config.threshold_delta(booked=booked)
    ladder = _ladder(config, stability, whole, whole - beside, delta, booked=booked, keys=keys)
    if ladder is not None and domain and not _counts_once(config, booked=booked):
        ladder = ladder.or_values(domain, config.false_answers)
    individual = accounts_individually(config, _to_experts(config, stability))
    if ladder is not None and not individual:
        # Every unit has paid for the ladder; else only those that had a vote, and they draw with
        # what they have left.
        beside += config.sentences * ladder.rho
    budget = _budget(config, stability, beside, config.delta_of_rho(booked=booked))
    left = budget.rho
    utility = _utility(config, config.utility or "surplus")
    if config.public_top_k is not None:
        utility = Likeliest(utility, config.public_top_k)
    draws = min(SHARES.pivotal_tokens, config.max_tokens) if individual else config.max_tokens
    strength = config.strength or strength_for(budget, draws, utility.range)
    mechanism = ExponentialMechanism(utility, strength, budget.factor)
    if not individual and mechanism.rho > left:
        raise ConfigurationError(
            "strength is so high that one token costs more than the whole budget of an "
            "answer; lower it or leave it out"
        )
    support_rho = 0.0 if support is None else counts * support.rho
    agreement = () if ladder is None else (_agreement(ladder, delta, config.sentences),)
    others = search_rho + support_rho + sum(part.rho or 0.0 for part in agreement)
    alike = "each unit for what it tells of them" if individual else "every unit alike"
    per_word = f"{alike}; {mechanism.rho:.4g} at most for one of them"
    plan: Plan[Mechanism] = Plan(
        mechanism=mechanism,
        individual=individual,
        epsilon=config.epsilon,
        delta=config.delta,
        rho=whole,
        parts=(
            Price("search", search_rho, _SEARCH),
            Price("support", support_rho, "whether documents say so: one count of units"),
            *agreement,
            Price("words", whole - others, per_word),
        ),
        least_rho=min(
            whole,
            epsilon_to_rho(
                config.epsilon, SHARES.beside_pool(config.delta), gaussian=config.only_gaussian
            ),
        ),
        support=support,
        groups=config.groups,
        counted=_counted(config, budget) if individual else None,
        weighs_news=config.utility in (None, "surplus", "vote"),
        ladder=ladder,
        only_agreement=config.agreement == "only",
        gaussian=config.only_gaussian and config.agreement == "only",
    )
    if keys is None or not _counts_once(config, booked=booked):
        return plan
    beside = search_rho + support_rho
    return _counted_once(
        plan, _budget(config, stability, beside, config.delta), domain, config.false_answers
    )


def label_plan(
    config: PrivacyConfig,
    stability: Stability,
    search_rho: float,
    method: LabelMethod | None = None,
) -> Plan[Mechanism]:
    """The plan of a label, one draw.

    Args:
        config: Public settings.
        stability: From the corpus to the units that are found.
        search_rho: zCDP rho that the search costs any unit at most.
        method: A published method, charged the same for every unit; None takes the ``utility`` and
            ``accounting`` of the settings.

    Raises:
        ConfigurationError: The settings do not fit the method or the stability, or cost more than
            the budget.
    """
    budget = _budget(config, stability, search_rho, config.delta)
    individual = method is None and accounts_individually(config, budget.stability)
    mechanism, priors = (_by_utility(config, budget), False) if method is None else method(budget)
    # Rounded up: in exact sums the budget pays for the search and the draw.
    rho = rounded_up(Fraction(budget.search_rho) + Fraction(mechanism.rho))
    return Plan(
        mechanism=mechanism,
        individual=individual,
        epsilon=config.epsilon,
        delta=mechanism.delta,
        rho=rho,
        parts=(
            Price("search", budget.search_rho, _SEARCH),
            Price("label", mechanism.rho, "one draw"),
        ),
        groups=config.groups,
        takes_priors=priors,
    )


def _agreement(ladder: Ladder, delta: float, sentences: int = 1) -> Price:
    steps = " or ".join(map(str, reversed(ladder.thresholds)))
    what = f"released where about {steps} say so"
    if isinstance(step := ladder.steps[-1], ValueCounts):
        what += f": counts over a public list of answers; without it {ladder.instead_of} must"
        return Price("agreement", sentences * ladder.rho, what)
    if ladder.instead_of is not None:
        what += (
            f": optimal selection, epsilon {step.epsilon:.4g}; Gaussian noise, which costs less "
            f"where answers are summed up, needs {ladder.instead_of}"
        )
    return Price("agreement", sentences * ladder.rho, what, delta)


def _counts_once(config: PrivacyConfig, *, booked: bool) -> bool:
    """True where one count decides the answer, and no sum of answers is kept."""
    return config.agreement == "only" and config.sentences == 1 and not booked


def _counted_once(
    plan: Plan[Mechanism], budget: Budget, domain: Domain, false: float
) -> Plan[Mechanism]:
    """The same plan, or one with a count that only an answer alone may have, for fewer units.

    Args:
        plan: With a count of keys, and without tokens.
        budget: Of the answer, with what is released before the count as its search.
        domain: See `planned_answer`.
        false: See `ValueCounts`.
    """
    if plan.ladder is None:
        return plan
    ladder = plan.ladder.or_selected(budget)
    if domain:
        ladder = ladder.or_values_once(budget, domain, false)
    if ladder is plan.ladder:
        return plan
    before = [part for part in plan.parts if part.name in ("search", "support")]
    parts = (*before, _agreement(ladder, sum(step.delta for step in ladder.steps)))
    # More by what a filter never spends.
    rho = math.fsum(part.rho or 0.0 for part in parts) * (1 + 1e-8)
    return replace(plan, rho=rho, least_rho=None, parts=parts, ladder=ladder)


def _counted(config: PrivacyConfig, budget: Budget) -> Callable[[NoisyCount], Mechanism] | None:
    """Strength by need: see docs/privacy.md. For utilities that say how much a token gains."""
    name = config.utility or "surplus"
    if config.strength is not None or name not in ("surplus", "vote"):
        return None
    draws = min(SHARES.pivotal_tokens_counted, config.max_tokens)
    most, cheap = (strength_for(budget, d, 1.0) for d in (draws, SHARES.cheap_tokens))

    def mechanism(count: NoisyCount) -> ExponentialMechanism:
        units = max(1.0, count.low)
        strength = min(most, _MOST_NATS / units) if most * count.high >= _LEAST_NATS else 0.0
        utility: Utility = Sufficient(_utility(config, name), strength * units, cheap * units)
        if config.public_top_k is not None:
            utility = Likeliest(utility, config.public_top_k)
        return ExponentialMechanism(utility, strength, budget.factor)

    return mechanism


def _ladder(
    config: PrivacyConfig,
    stability: Stability,
    whole: float,
    most: float,
    delta: float,
    *,
    booked: bool,
    keys: int | None,
) -> Ladder | None:
    """Counts of whole answers; those of all sentences together leave some of ``most``.

    Args:
        config: Public settings.
        stability: From the corpus to the units that are found.
        whole: zCDP rho of the answer.
        most: The same without its search and the counts of support.
        delta: Of all thresholds.
        booked: Whether a ledger books what thresholds cost.
        keys: See `planned_answer`.
    """
    if config.agreement == "off" or most <= 0:
        return None
    # Nothing is drawn token by token where only agreement answers.
    part = 1.0 if config.agreement == "only" else SHARES.agreement
    rho = min(part * whole, _MOST_OF_AGREEMENT * most) / config.sentences
    own, reach = delta / config.sentences, (_to_experts(config, stability), config.adjacency)
    if booked:
        return Ladder.behind_top_count(rho, own, *reach, keys, gaussian=config.only_gaussian)
    if keys is not None:
        return Ladder.of_keys(rho, own, keys, *reach)
    return Ladder.within(rho, own, SHARES.first_threshold * config.units, *reach)


def _budget(config: PrivacyConfig, stability: Stability, search_rho: float, delta: float) -> Budget:
    return Budget(
        config.epsilon,
        delta,
        config.adjacency,
        _to_experts(config, stability),
        search_rho=search_rho,
    )


def _to_experts(config: PrivacyConfig, stability: Stability) -> Stability:
    return stability.then(DIRECT if config.groups is None else RANDOM_GROUPS)


def _by_utility(config: PrivacyConfig, budget: Budget) -> ExponentialMechanism:
    """One draw of the exponential mechanism; lambda times its reach is its pure epsilon."""
    utility = _utility(config, config.utility or "log_prob")
    most = bounded_range_strength(budget, utility.range)
    if config.strength is not None and config.strength > most * (1 + 1e-12):
        raise ConfigurationError(
            f"strength {config.strength:g} costs more than epsilon {config.epsilon:g} in one draw; "
            "lower it or leave it out"
        )
    strength = min(config.strength or most, most)
    return ExponentialMechanism(utility, strength, budget.factor, budget.search_delta)


def _utility(config: PrivacyConfig, name: UtilityName) -> Utility:
    match name:
        case "log_prob":
            return LogProb(config.clip or 4.0)
        case "log_ratio":
            return LogRatio(config.clip or 1.0, config.public_power)
        case "surplus":
            return Surplus(config.expert_power, config.public_power)
        case "vote":
            return Vote(config.public_power)
