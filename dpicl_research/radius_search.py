"""What AdaDPSyn's radius search finds, and what becomes of its ball.

Two tables. The first is exact and reads no data: the radius that comes out where all experts say
the same, and where no two of them agree. The second is measured on the texts of a task, token by
token: the radius without noise, the one that was searched for with noise, and that of the last
ball (Gao et al., ICLR 2025, Table 1). It shows what happens inside, so it is for public data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.mechanisms.points import (
    GRID,
    LARGEST,
    ROUNDS,
    SENSITIVITY,
    crowding,
    down_chance,
    pairwise,
    points,
    public_point,
)
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import no_ranges
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import likeliest
from dpicl_rag.synthesis.noisy_sums import Adaptive
from dpicl_research.open_writing import OpenWriter
from dpicl_research.paper_protocol import shuffled
from dpicl_research.report import Report, Table, percent
from dpicl_research.synthetic_shots import (
    Arm,
    Settings,
    examples_for,
    known_labels,
    plan_of,
    template_of,
)
from dpicl_research.tasks import Task

_HALVINGS = 10  # of a radius without noise


def radius_chances(
    points: torch.Tensor, most: int, multiplier: float, halved: int = ROUNDS
) -> list[tuple[float, float]]:
    """Radii that ``good_radius`` may return, each radius with its exact chance. Private.

    For tests and for experiments on public data; the arguments are those of ``good_radius``.
    """
    distances = pairwise(points)
    found = [(0.0, LARGEST, 1.0)]
    for _ in range(halved):
        grown = []
        for low, high, chance in found:
            middle = (low + high) / 2
            down = down_chance(distances, middle, most, SENSITIVITY * multiplier)
            grown += [(low, middle, chance * down), (middle, high, chance * (1 - down))]
        found = grown
    return [((low + high) / 2, chance) for low, high, chance in found]


@dataclass(frozen=True, slots=True)
class Extremes:
    """The radius that is searched for, at its two extremes: mean and standard deviation. Exact.

    Attributes:
        arm: A row's name.
        epsilon: That it was asked for.
        noise: Of a value of the search, over its sensitivity.
        agreeing: Where all experts say the same: the radius is 0.
        apart: Where each expert is sure of another token: no ball holds two.
        told: Chance at most that one who sees one radius says which of the two it was.
    """

    arm: str
    epsilon: float
    noise: float
    agreeing: tuple[float, float]
    apart: tuple[float, float]
    told: float


@dataclass(frozen=True, slots=True)
class Seen:
    """One token.

    Attributes:
        true: The radius without noise.
        searched: That came out with noise.
        last: Of the last ball.
    """

    true: float
    searched: float
    last: float


@dataclass(frozen=True, slots=True)
class Radii:
    """Means over the tokens of a task's texts.

    Attributes:
        arm: A row's name.
        epsilon: That it was asked for.
        tokens: How many.
        true: The radius without noise.
        searched: That came out.
        last: Of the last ball.
        shrunk: Share of tokens whose last ball is smaller than the first one.
    """

    arm: str
    epsilon: float
    tokens: int
    true: float
    searched: float
    last: float
    shrunk: float


@dataclass(frozen=True)
class RadiusReport(Report):
    """Both tables.

    Attributes:
        settings: Of the texts.
        extremes: A line for each row.
        radii: A line for each row.
    """

    settings: Settings
    extremes: tuple[Extremes, ...]
    radii: tuple[Radii, ...]

    def summary(self) -> dict[str, Any]:
        """See `Report`."""
        return {
            "task": self.settings.task,
            "extremes": [asdict(line) for line in self.extremes],
            "radii": [asdict(line) for line in self.radii],
        }

    def tables(self) -> list[Table]:
        """See `Report`."""
        experts = self.settings.experts
        exact = tuple(
            (
                *(line.arm, f"{line.epsilon:g}", f"{line.noise:.3g}"),
                *("{:.2f} ± {:.2f}".format(*pair) for pair in (line.agreeing, line.apart)),
                f"{100 * line.told:.0f} %",
            )
            for line in self.extremes
        )
        measured = tuple(
            (
                *(line.arm, f"{line.epsilon:g}", str(line.tokens), f"{line.true:.2f}"),
                *(f"{line.searched:.2f}", f"{line.last:.2f}", percent(line.shrunk, None)),
            )
            for line in self.radii
        )
        return [
            Table(
                f"{experts} experts, exact: target radius, mean ± standard deviation",
                ("method", "epsilon", "noise", "all agree", "none agree", "told apart at most"),
                exact,
            ),
            Table(
                f"{self.settings.task}: mean radius over tokens; the first ball has {LARGEST:.2f}",
                ("method", "epsilon", "tokens", "no noise", "searched", "last", "shrunk, %"),
                measured,
            ),
        ]


def extremes(one: Adaptive) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Mean and deviation of the radius at both extremes, and the chance that they are told apart.

    Args:
        one: How a token is drawn. Its expected number of experts is there.
    """
    alike = torch.zeros(one.experts, one.experts, dtype=torch.int64)
    alike[:, 0] = GRID
    found = [
        radius_chances(own, one.captured, one.noises.radius, one.noises.halved)
        for own in (alike, torch.eye(one.experts, dtype=torch.int64) * GRID)
    ]
    distance = sum(abs(p - q) for (_, p), (_, q) in zip(*found, strict=True)) / 2
    return _mean_and_deviation(found[0]), _mean_and_deviation(found[1]), (1 + distance) / 2


def radius_without_noise(own: torch.Tensor, most: int) -> float:
    """Smallest radius, to a thousandth, at which ``L`` reaches t; the largest where none does.

    Args:
        own: Points, int64 [n, K].
        most: t.
    """
    distances = pairwise(own)
    low, high = 0.0, LARGEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if crowding(distances, middle, most) >= most else (middle, high)
    return high


def measure(
    model: LanguageModel,
    task: Task,
    settings: Settings,
    rows: Sequence[Arm],
    on_progress: Progress | None = None,
) -> RadiusReport:
    """Write the texts of all seeds with every row, and look at each token's radius.

    Args:
        model: Writes.
        task: Public data.
        settings: Of the texts.
        rows: Of the adaptive method.
        on_progress: Called with texts that are written, and with all.

    Raises:
        ConfigurationError: A row has no radius search, or settings do not fit each other.
    """
    exact, measured = [], []
    names, total = known_labels(task), len(rows) * settings.seeds * settings.shots
    done = 0
    for arm in rows:
        plan = plan_of(task, settings, arm)
        one, sampler, epsilon = plan.mechanism, plan.sampler, arm.epsilon or 0.0
        if not isinstance(one, Adaptive) or one.target is not None or sampler is None:
            raise ConfigurationError("only the adaptive method searches for a radius; give none")
        agreeing, apart, told = extremes(one)
        exact.append(Extremes(arm.name, epsilon, one.noises.radius, agreeing, apart, told))
        watched = _Watched(one)
        length = settings.text_tokens * settings.per_expert
        writer = OpenWriter(
            model,
            template_of(task, settings.prompts),
            sampler,
            watched,
            settings.max_tokens,
            length,
        )
        for seed in range(settings.seeds):
            order = shuffled(f"{seed}/shots", len(names))[: settings.shots]
            for label in [names[i] for i in order]:
                if on_progress is not None:
                    on_progress(done, total)
                writer.write(label, examples_for(task, [label]), Randomness())
                done += 1
        measured.append(_line(arm, watched.seen))
    if on_progress is not None:
        on_progress(total, total)
    return RadiusReport(settings, tuple(exact), tuple(measured))


@dataclass(frozen=True, slots=True)
class _Watched:
    """The adaptive method with a look inside. Not private."""

    one: Adaptive
    seen: list[Seen] = field(default_factory=list)
    rho: float = math.inf
    delta: float = 1.0

    def draw(self, step: Step, spend: PrivacyFilter, randomness: Randomness) -> int:
        """See ``Mechanism``."""
        spend.weigh(no_ranges)
        at = likeliest(step.public, self.one.candidates)
        own, centre = points(step, at), public_point(step, at)
        spend.pay()
        target = self.one.radius(own, randomness)
        *_, (last, mean) = self.one.balls(own, centre, target, randomness)
        self.seen.append(Seen(radius_without_noise(own, self.one.captured), target, last))
        return int(at[mean.argmax()])

    def distribution(self, step: Step) -> torch.Tensor:
        """See ``Mechanism``."""
        return self.one.distribution(step)


def _mean_and_deviation(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    mean = sum(radius * chance for radius, chance in found)
    return mean, math.sqrt(sum((radius - mean) ** 2 * chance for radius, chance in found))


def _line(arm: Arm, seen: Sequence[Seen]) -> Radii:
    return Radii(
        arm.name,
        arm.epsilon or 0.0,
        len(seen),
        fmean(one.true for one in seen),
        fmean(one.searched for one in seen),
        fmean(one.last for one in seen),
        fmean(one.last < LARGEST for one in seen),
    )
