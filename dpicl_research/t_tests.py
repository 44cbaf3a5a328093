"""Whether private demonstrations differ from private classifiers beyond chance: t-tests over seeds.

Carey et al. 2024 test their methods against baselines (Table IV). Here every line with private
demonstrations stands against the classifiers of the same epsilon, and against no demonstrations.
Lines that answer the same queries of a seed are compared in pairs; a classifier has the whole test
set, so it is compared by Welch's test, without the assumption of equal variances.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dpicl_research.report import Table
from dpicl_research.run_folder import read_settings
from dpicl_research.table_arms import Arm
from dpicl_research.table_labels import accuracies, arms_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """One t-test.

    Attributes:
        task: The data set.
        arm: With private demonstrations.
        against: What it is compared with.
        difference: Of the mean accuracies; above 0 where the demonstrations are better.
        t: The statistic; None where it is not defined, as where no seed differs from another.
        p: Two-sided; None with ``t``.
        paired: Whether over pairs of a seed.
        seeds: That both have.
    """

    task: str
    arm: Arm
    against: Arm
    difference: float
    t: float | None
    p: float | None
    paired: bool
    seeds: int


def comparisons(folder: Path) -> list[Comparison]:
    """All tests of a run, finished or not; of lines with at least two seeds.

    Raises:
        ConfigurationError: The folder holds no run, or a damaged one.
    """
    settings = read_settings(folder)
    shares = accuracies(folder)
    every = arms_of(settings)
    found = []
    for task in settings["tasks"]:
        for arm in every:
            if arm.k and arm.epsilon is not None:
                for other in _baselines(arm, every):
                    own = {seed: one[0] for seed, one in shares.get((task, arm.key), {}).items()}
                    known = shares.get((task, other.key), {})
                    beside = {seed: one[0] for seed, one in known.items()}
                    if len(own.keys() & beside.keys()) > 1:
                        found.append(compared(task, arm, other, own, beside))
    return found


def compared(
    task: str, arm: Arm, against: Arm, own: Mapping[int, float], beside: Mapping[int, float]
) -> Comparison:
    """A t-test of accuracies by seed.

    Args:
        task: The data set.
        arm: Whose accuracies ``own`` are.
        against: Whose accuracies ``beside`` are; one with demonstrations is compared in pairs.
        own: By seed.
        beside: By seed; what only one of them has is left out.
    """
    from scipy.stats import ttest_ind, ttest_rel

    seeds = sorted(own.keys() & beside.keys())
    mine, others = [own[seed] for seed in seeds], [beside[seed] for seed in seeds]
    paired = against.k is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of seeds that are all the same
        result = ttest_rel(mine, others) if paired else ttest_ind(mine, others, equal_var=False)
    defined = math.isfinite(result.statistic)
    return Comparison(
        task,
        arm,
        against,
        math.fsum(mine) / len(seeds) - math.fsum(others) / len(seeds),
        float(result.statistic) if defined else None,
        float(result.pvalue) if defined else None,
        paired,
        len(seeds),
    )


def t_table(folder: Path) -> Table:
    """The tests of a run as a table of words."""
    columns = ("data set", "demonstrations", "epsilon", "k", "against", "points", "t", "p", "test")
    rows = tuple(
        (
            *(one.task, one.arm.method, f"{one.arm.epsilon:g}", str(one.arm.k)),
            *(one.against.method, f"{100 * one.difference:+.1f}"),
            *("" if number is None else f"{number:.3g}" for number in (one.t, one.p)),
            f"{'paired' if one.paired else 'Welch'}, {one.seeds} seeds",
        )
        for one in comparisons(folder)
    )
    return Table("t-tests over seeds, two-sided", columns, rows)


def _baselines(arm: Arm, every: list[Arm]) -> Iterator[Arm]:
    for other in every:
        private_classifier = other.k is None and other.epsilon == arm.epsilon
        if private_classifier or other.k == 0:
            yield other
