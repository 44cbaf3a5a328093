"""Settings that papers and their code use, and their true cost. For comparison, not for use.

``few-shot``: Tang et al., ICLR 2024, "Privacy-Preserving In-Context Learning with Differentially
Private Few-Shot Generation". ``adaptive``: Gao et al., ICLR 2025, "Data-adaptive Differentially
Private Prompt Synthesis for In-Context Learning" (AdaDPSyn). Both draw a sample of fixed size and
mean replaced units that keep their label.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dpicl_rag.accounting import (
    Adjacency,
    Event,
    FixedSizeSubsampled,
    Gaussian,
    PrivacyLossAccountant,
)
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.synthesis.noisy_sums import AdaptiveConstants

_INTERVAL = 1e-3


@dataclass(frozen=True, slots=True)
class Run:
    """One published run: texts of one label.

    Attributes:
        task: Data set.
        claimed: Epsilon that the paper states.
        sample: Examples of a token.
        pool: Examples of the label, or of the whole set.
        tokens: Of all texts of one label.
        delta: Of the claim.
        multiplier: Noise over sensitivity of one token, for a replaced unit.
        constants: Of the adaptive method.
    """

    task: str
    claimed: float
    sample: int
    pool: int
    tokens: int
    delta: float
    multiplier: float
    constants: AdaptiveConstants | None = None

    def epsilon(self, *, labels_change: bool = False) -> float:
        """Its cost where every token has a sample of its own, by the exact profile.

        Args:
            labels_change: Whether a replaced unit may have another label: two pools change then.
        """
        event = FixedSizeSubsampled(self.sample / self.pool, Gaussian(self.multiplier))
        return _composed(event, self.tokens * (2 if labels_change else 1), self.delta)


def _few_shot(
    task: str, sample: int, pool: int, tokens: int, sigmas: tuple[float, ...]
) -> tuple[Run, ...]:
    # Noise of sqrt(2) sigma on each sum, which a replaced group moves by sqrt(2).
    return tuple(
        Run(task, claimed, sample, pool, tokens, 1 / pool, sigma)
        for claimed, sigma in zip((1, 2, 4, 8), sigmas, strict=True)
    )


def _adaptive(
    task: str,
    sample: int,
    pool: int,
    tokens: int,
    size: int,
    constants: tuple[tuple[int, float, float, float, float], ...],
) -> tuple[Run, ...]:
    found = []
    for claimed, (rounds, slack, radius, count, mean) in zip((1, 2, 4, 8), constants, strict=True):
        own = AdaptiveConstants(radius, mean, count, rounds, slack=slack)
        multiplier = own.noises().multiplier
        found.append(Run(task, claimed, sample, pool, tokens, 1 / size, multiplier, own))
    return tuple(found)


FEW_SHOT = (
    *_few_shot("agnews", 20, 30_000, 100, (0.51, 0.46, 0.39, 0.31)),
    *_few_shot("dbpedia", 80, 40_000, 100, (0.63, 0.54, 0.45, 0.36)),
    *_few_shot("mitg", 80, 2_953, 80, (1.08, 0.81, 0.64, 0.50)),
    *_few_shot("mitd", 80, 1_561, 80, (1.52, 1.04, 0.77, 0.58)),
)
"""Tang et al.: 1 text of 100 tokens for each label, or 4 of 20."""

ADAPTIVE = (
    *_adaptive(
        "agnews",
        sample=20,
        pool=30_000,
        tokens=100,
        size=120_000,
        constants=(
            (1, 0.1, 10, 3, 1.23),
            (1, 0.15, 10, 3, 0.92),
            (1, 0.2, 10, 3, 0.71),
            (1, 0.2, 10, 3, 0.58),
        ),
    ),
    *_adaptive(
        "dbpedia",
        sample=20,
        pool=3_558,
        tokens=100,
        size=49_999,
        constants=(
            (1, 0.1, 10, 3, 1.54),
            (1, 0.1, 10, 3, 1.14),
            (1, 0.2, 10, 3, 0.89),
            (1, 0.2, 10, 3, 0.73),
        ),
    ),
    *_adaptive(
        "trec",
        sample=40,
        pool=835,
        tokens=15,
        size=5_452,
        constants=(
            (1, 0.1, 17.5, 6, 2.52),
            (1, 0.2, 15, 5, 1.95),
            (1, 0.15, 10, 5, 1.15),
            (2, 0.25, 15, 5, 1.09),
        ),
    ),
    *_adaptive(
        "mitg",
        sample=40,
        pool=2_953,
        tokens=80,
        size=2_953,
        constants=(
            (1, 0.3, 15, 6, 1.59),
            (1, 0.35, 10, 6, 1.17),
            (2, 0.25, 10, 6, 1.12),
            (2, 0.2, 10, 5, 0.90),
        ),
    ),
    *_adaptive(
        "mitd",
        sample=40,
        pool=1_561,
        tokens=80,
        size=1_561,
        constants=(
            (1, 0.15, 17.5, 6, 2.57),
            (1, 0.15, 17.5, 6, 1.49),
            (1, 0.3, 15, 6, 1.07),
            (1, 0.15, 15, 5, 0.83),
        ),
    ),
)
"""Gao et al., Tables 13 to 17: at each claimed epsilon T^, lambda, and noise of radius, count and
mean."""


def published_constants(task: str, claimed: float) -> AdaptiveConstants:
    """The constants of AdaDPSyn for a task at the epsilon that the paper claims.

    Raises:
        ConfigurationError: The paper has none.
    """
    for run in ADAPTIVE:
        if (run.task, run.claimed) == (task, claimed) and run.constants is not None:
            return run.constants
    raise ConfigurationError(
        f"AdaDPSyn has no constants for {task} at epsilon {claimed:g}: it has them for agnews, "
        "dbpedia, trec, mitg and mitd at 1, 2, 4 and 8"
    )


@lru_cache(maxsize=128)
def _composed(event: Event, count: int, delta: float) -> float:
    accountant = PrivacyLossAccountant(Adjacency.REPLACE_ONE, _INTERVAL)
    return accountant.compose(event, count).epsilon(delta)
