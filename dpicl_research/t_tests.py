"""t-tests of private demonstrations: against classifiers, over data sets, between two models.

Carey et al. 2024 test two things. In the text (V-F1) one epsilon and one number of demonstrations
against each classifier of the same epsilon, in pairs over the data sets, one-tailed (`over_tasks`).
In Table IV two models against each other, for each data set and number of demonstrations, in pairs
over all epsilons, two-tailed (`between_models`).

`comparisons` are ours, over seeds: every line with private demonstrations against the classifiers
of the same epsilon, and against no demonstrations. Lines that answer the same queries of a seed are
compared in pairs; a classifier has the whole test set, so it is compared by Welch's test, without
the assumption of equal variances.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_research.report import Table, side_by_side
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
    from scipy.stats import ttest_ind

    seeds = sorted(own.keys() & beside.keys())
    mine, others = [own[seed] for seed in seeds], [beside[seed] for seed in seeds]
    paired = against.k is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of seeds that are all the same
        t, p = (
            in_pairs(mine, others) if paired else _defined(ttest_ind(mine, others, equal_var=False))
        )
    return Comparison(task, arm, against, fmean(mine) - fmean(others), t, p, paired, len(seeds))


def in_pairs(
    one: Sequence[float], other: Sequence[float], *, greater: bool = False
) -> tuple[float | None, float | None]:
    """Statistic and p of a paired t-test; None where no pair differs from another.

    Args:
        one: Figures.
        other: Their partners, in the same order.
        greater: One-tailed: whether ``one`` is the larger. Else two-tailed.
    """
    from scipy.stats import ttest_rel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pairs that are all the same
        return _defined(ttest_rel(one, other, alternative="greater" if greater else "two-sided"))


def over_tasks(folder: Path) -> Table:
    """DP-TabICL's own test of a run: one-tailed, in pairs over its data sets; of at least two."""
    settings = read_settings(folder)
    means, every = _means(folder), arms_of(settings)
    rows = []
    for arm in every:
        for other in _baselines(arm, every) if arm.k and arm.epsilon is not None else ():
            tasks = [
                task
                for task in settings["tasks"]
                if (task, arm.key) in means and (task, other.key) in means
            ]
            if len(tasks) < 2:
                continue
            mine, theirs = ([means[task, one.key] for task in tasks] for one in (arm, other))
            points = 100 * (fmean(mine) - fmean(theirs))
            _, p = in_pairs(mine, theirs, greater=True)
            head = (arm.method, f"{arm.epsilon:g}", str(arm.k), other.method)
            rows.append((*head, f"{points:+.1f}", _shown(p), str(len(tasks))))
    columns = ("demonstrations", "epsilon", "k", "against", "points", "p", "data sets")
    return Table("Paired t-tests over data sets, one-tailed", columns, tuple(rows))


def between_models(folder: Path, other: Path) -> Table:
    """DP-TabICL's Table IV: p of two models' runs, two-tailed, in pairs over all epsilons.

    Raises:
        ConfigurationError: A folder holds no run, or both are of one model.
    """
    settings, beside = read_settings(folder), read_settings(other)
    if settings["model"] == beside["model"]:
        raise ConfigurationError(f"{folder} and {other} are runs of the same model")
    mine, theirs = _means(folder), _means(other)
    known = {(task, arm) for task, arm in mine if (task, arm) in theirs}
    cells = []
    for method, k in dict.fromkeys(
        (arm.method, arm.k) for arm in arms_of(settings) if arm.k and arm.epsilon is not None
    ):
        for task in settings["tasks"]:
            keys = [Arm(method, epsilon, k).key for epsilon in settings["epsilons"]]
            both = [(task, key) for key in keys if (task, key) in known]
            if len(both) > 1:
                _, p = in_pairs([mine[one] for one in both], [theirs[one] for one in both])
                cells.append(((method, str(k)), task, _shown(p)))
    tasks = {task: task for task in settings["tasks"]}
    title = "p of two models, paired t-tests over epsilons, two-tailed"
    return side_by_side(title, ("demonstrations", "k"), tasks, cells)


def t_table(folder: Path) -> Table:
    """The tests of a run as a table of words."""
    columns = ("data set", "demonstrations", "epsilon", "k", "against", "points", "t", "p", "test")
    rows = tuple(
        (
            *(one.task, one.arm.method, f"{one.arm.epsilon:g}", str(one.arm.k)),
            *(one.against.method, f"{100 * one.difference:+.1f}"),
            *map(_shown, (one.t, one.p)),
            f"{'paired' if one.paired else 'Welch'}, {one.seeds} seeds",
        )
        for one in comparisons(folder)
    )
    return Table("t-tests over seeds, two-sided", columns, rows)


def _means(folder: Path) -> dict[tuple[str, str], float]:
    """Mean accuracies over seeds, by data set and key of an arm."""
    found = accuracies(folder)
    return {place: fmean(plain for plain, _ in by.values()) for place, by in found.items()}


def _defined(result: Any) -> tuple[float | None, float | None]:
    if not math.isfinite(result.statistic):
        return None, None
    return float(result.statistic), float(result.pvalue)


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"


def _baselines(arm: Arm, every: list[Arm]) -> Iterator[Arm]:
    for other in every:
        private_classifier = other.k is None and other.epsilon == arm.epsilon
        if private_classifier or other.k == 0:
            yield other
