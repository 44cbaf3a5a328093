"""Outcomes of a leaderboard, kept in a file: their table, where we lose, and the chart."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.table import Table

OURS = "dpicl-rag: agreement"
COLUMNS = (
    *("task", "method", "epsilon", "charged", "right and supported", "interval"),
    *("wrong and supported", "silent", "asked", "seconds", "must agree"),
)


@dataclass(frozen=True)
class Outcome:
    """One answer.

    Attributes:
        task: Of the question.
        method: Its name.
        epsilon: Asked for.
        seed: Of the noise.
        question: What was asked.
        charged: See `Method.charge`.
        needed: See `Method.needed`.
        right: Whether the answer is right.
        supported: Whether the method stands by it.
        seconds: That it took, beside what was read for all or by methods before it.
        text: The answer.
    """

    task: str
    method: str
    epsilon: float
    seed: int
    question: str
    charged: float
    needed: int | None
    right: bool
    supported: bool
    seconds: float
    text: str

    @property
    def asked(self) -> tuple[str, str, float, int, str]:
        """What tells outcomes apart."""
        return self.task, self.method, self.epsilon, self.seed, self.question

    @property
    def private(self) -> bool:
        """Whether any document was read, and privately."""
        return 0 < self.charged < math.inf


def kept(file: Path) -> list[Outcome]:
    """Outcomes of a file, if it is there."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [Outcome(**json.loads(line)) for line in lines]


def line_of(outcome: Outcome) -> str:
    """A line of such a file."""
    return json.dumps(asdict(outcome))


@dataclass(frozen=True)
class Standing:
    """What one method got of one task at one epsilon."""

    outcomes: Sequence[Outcome]

    @property
    def right(self) -> int:
        """Answers that are right and supported."""
        return sum(one.right and one.supported for one in self.outcomes)

    @property
    def wrong(self) -> int:
        """Answers that are wrong and supported."""
        return sum(one.supported and not one.right for one in self.outcomes)

    @property
    def interval(self) -> tuple[float, float]:
        """Of the part of right answers: a standard error over seeds; of one Wilson's, 95 %."""
        seeds = Counter(one.seed for one in self.outcomes)
        if len(seeds) == 1:
            return wilson(self.right, len(self.outcomes))
        right = Counter(one.seed for one in self.outcomes if one.right and one.supported)
        parts = [right[seed] / many for seed, many in seeds.items()]
        error = stdev(parts) / math.sqrt(len(parts))
        return mean(parts) - error, mean(parts) + error

    def row(self) -> tuple[str, ...]:
        """A row of the table."""
        first, many = self.outcomes[0], len(self.outcomes)
        charged = "all" if math.isinf(first.charged) else f"{first.charged:.4g}"
        return (
            *(first.task, first.method, f"{first.epsilon:g}", charged, str(self.right)),
            "{:.2f} to {:.2f}".format(*self.interval),
            *(str(self.wrong), str(many - self.right - self.wrong), str(many)),
            f"{mean(one.seconds for one in self.outcomes):.1f}",
            "" if first.needed is None else str(first.needed),
        )


def wilson(right: int, many: int) -> tuple[float, float]:
    """Wilson's interval of a part, 95 %."""
    z, part = 1.96, right / many
    middle = part + z * z / (2 * many)
    reach = z * math.sqrt(part * (1 - part) / many + z * z / (4 * many * many))
    return max(0.0, (middle - reach) / (1 + z * z / many)), (middle + reach) / (1 + z * z / many)


def standings(outcomes: Sequence[Outcome]) -> list[Standing]:
    """By task and epsilon, most right answers first, then fewest wrong ones."""
    groups: dict[tuple[str, float, str], list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault((one.task, -one.epsilon, one.method), []).append(one)
    found = {key: Standing(own) for key, own in groups.items()}
    order = sorted(found, key=lambda key: (*key[:2], -found[key].right, found[key].wrong))
    return [found[key] for key in order]


def losses(found: Sequence[Standing]) -> Iterator[str]:
    """Where another private method has more right answers than ours, or as many and fewer wrong."""
    own = {(s.outcomes[0].task, s.outcomes[0].epsilon): s for s in found if _is_ours(s)}
    for one in found:
        first = one.outcomes[0]
        ours = own.get((first.task, first.epsilon))
        if ours is None or _is_ours(one) or not first.private:
            continue
        if (one.right, -one.wrong) > (ours.right, -ours.wrong):
            yield (
                f"{first.task}, epsilon {first.epsilon:g}: {first.method} has {one.right} right "
                f"and {one.wrong} wrong of {len(one.outcomes)}, ours {ours.right} and {ours.wrong} "
                f"of {len(ours.outcomes)}"
            )


def _is_ours(one: Standing) -> bool:
    return one.outcomes[0].method == OURS


def table(found: Sequence[Standing]) -> Table:
    """The table for a terminal."""
    shown = Table(*COLUMNS)
    for one in found:
        shown.add_row(*one.row())
    return shown


def markdown(found: Sequence[Standing]) -> str:
    """Where we lose, then the table."""
    lost = [f"- {one}" for one in losses(found)] or ["- nowhere in this run"]
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(one.row() for one in found)]
    lines = ["Where ours loses:", "", *lost, "", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def plot(found: Sequence[Standing], file: Path) -> None:
    """Right and supported answers by epsilon, a panel for each task."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    colours = pyplot.get_cmap("tab20")
    tasks = sorted({one.outcomes[0].task for one in found})
    size = (7 * len(tasks), 4.5)
    figure, panels = pyplot.subplots(1, len(tasks), figsize=size, squeeze=False)
    for task, axes in zip(tasks, panels[0], strict=True):
        of_task = [one for one in found if one.outcomes[0].task == task]
        for at, name in enumerate(dict.fromkeys(one.outcomes[0].method for one in of_task)):
            own = [one for one in of_task if one.outcomes[0].method == name]
            points = sorted((s.outcomes[0].epsilon, s.right / len(s.outcomes), s) for s in own)
            parts = [part for _, part, _ in points]
            bars = [
                [max(0.0, part - s.interval[0]) for _, part, s in points],
                [max(0.0, s.interval[1] - part) for _, part, s in points],
            ]
            # Beside each other, so that equal ones are seen.
            places = [epsilon * 1.02 ** (at - 6) for epsilon, _, _ in points]
            marker = "o" if points[0][2].outcomes[0].private else "x"
            style: dict[str, Any] = {"linewidth": 2.5 if name == OURS else 1, "elinewidth": 0.5}
            axes.errorbar(
                places, parts, bars, label=name, marker=marker, color=colours(at), **style
            )
        axes.set_xscale("log", base=2)
        epsilons = sorted({one.outcomes[0].epsilon for one in of_task})
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.set(title=task, xlabel="epsilon of an answer", ylabel="right and supported")
    panels[0][-1].legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(file, dpi=120, bbox_inches="tight")
