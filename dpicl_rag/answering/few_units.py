"""Warnings that a search may find too few units for an answer: early, from public numbers.

How many units a search finds is private. How many it may find at most is not, where the caller set
it, and how much an expert weighs follows from the settings. Experts that cannot carry a word
together leave the answer to the public model: it is fluent, and wrong.
"""

from __future__ import annotations

import math
import warnings

from dpicl_rag.answering.plan import Plan
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.mechanisms.base import Mechanism
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.retrieval.search import Search

# Nats that lift a word from one in a million to odds of 4 nats, as names that a model has never
# heard need it. Divided by lambda that is 15, 29 and 53 units at epsilon 8, 4 and 2; measured are
# 14, 26 and 48 (benchmarks/README.md, "how many documents must agree").
_NEWS = math.log(1e6) + 4.0


class FewUnitsWarning(UserWarning):
    """A setting leaves an answer fewer units than it needs; see `warn_of_few_units`."""


def units_needed(mechanism: ExponentialMechanism) -> int:
    """About how many units must agree before tokens follow them. Public.

    Args:
        mechanism: Draws by ``surplus`` or ``vote``.
    """
    return math.ceil(_NEWS / (mechanism.strength * mechanism.utility.range))


def units_to_agree(config: PrivacyConfig, plan: Plan[Mechanism]) -> int | None:
    """About how many units must agree for an answer with these settings. Public.

    Returns:
        None where the settings have no such number.
    """
    if plan.ladder:
        return plan.ladder.units  # fewer than tokens need
    weighed = config.utility in (None, "surplus", "vote")
    if not weighed or not isinstance(plan.mechanism, ExponentialMechanism):
        return None
    return units_needed(plan.mechanism)


def warn_of_few_units(config: PrivacyConfig, search: Search, plan: Plan[Mechanism]) -> None:
    """Warn where settings leave fewer units than the plan of an answer needs.

    A function of public numbers: nothing is searched, and what a threshold or a list finds has no
    part in it.

    Args:
        config: Settings of the answer.
        search: Finds its units.
        plan: What the answer may cost.
    """
    needed = units_to_agree(config, plan)
    found = (search.aim, _remedy(search))
    for most, remedy in (found, (config.groups, "leave groups out")):
        if most is not None and needed is not None and most < needed:
            warnings.warn(
                f"at most about {most} units are read for an answer, and at epsilon "
                f"{config.epsilon:g} it needs about {needed} that agree: with fewer the model "
                f"answers without them, and may be wrong; {remedy}, or raise epsilon",
                FewUnitsWarning,
                stacklevel=3,
            )
            return


def _remedy(search: Search) -> str:
    """The setting that lets a search find more units."""
    if search.rate < 1:
        return "raise the sampling rate"
    if search.thin_to is not None and not search.bar.noisy:
        return "raise max_calls"
    if search.nearest is not None:
        # Of half the weight, as each may displace another.
        return "leave top_k (the k of a retriever) out"
    return "raise units"
