"""Private PoEtry's pseudo-name task (section 4.3): which made-up name has this picture?

For every seed some classes of pictures get made-up names, a context of pictures with their names is
drawn at random (not class by class), and one query is asked. What experts say is kept; methods are
then compared without a model. One label is drawn for each seed, so that accuracies have
Clopper-Pearson intervals, as in the paper.

The data is public and its coins are repeatable. This is not the private path, which is
`dpicl_rag.vision.classify_image`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from dpicl_rag.accounting import Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.methods import Layout, Method, Views, ZeroShot, make
from dpicl_rag.vision.base import Example, Picture, VisionModel, read_picture, rows_of_experts
from dpicl_research.context_rows import Coins, distinct, name_of
from dpicl_research.image_tasks import ImageTask
from dpicl_research.label_scores import Subset
from dpicl_research.paper_protocol import Wanted, shuffled, wanted_layouts
from dpicl_research.report import Report, Table, side_by_side
from dpicl_research.scores_folder import Record, Reporting, Run, Settings, keep_scores

NAMES = ("dax", "blicket", "perpo", "slation", "shously")
"""The paper's made-up names; fewer where there are fewer classes."""

METHODS = (
    *("zero-shot", "k-shot", "soft", "hard"),
    *("poe", "votes", "votes-gaussian", "permute-and-flip"),
)
"""Rows of the table by default: four without noise, four private ones."""

_PICTURES = 512  # that are kept unpacked


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of the table.

    Attributes:
        method: With its group size.
        group_size: Examples of an expert on average; None where there are no experts.
    """

    method: Method
    group_size: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """One method, grouping, number of pairs and epsilon.

    Attributes:
        method: Its name.
        group_size: See `Arm`.
        pairs: Pictures with names in the context.
        epsilon: Privacy of the label; None without noise.
        accuracy: Share of seeds whose drawn label is right.
        low: Of its 95 % Clopper-Pearson interval.
        high: Of it.
        expected: Probability of the right label, mean over seeds: exact over the noise.
        seeds: How many.
    """

    method: str
    group_size: int | None
    pairs: int
    epsilon: float | None
    accuracy: float
    low: float
    high: float
    expected: float
    seeds: int


@dataclass(frozen=True, slots=True)
class ImagesReport(Report):
    """The lines of a run.

    Attributes:
        run: What it is about.
        delta: Of the private methods.
        lines: Of every arm, epsilon and number of pairs.
    """

    run: Run
    delta: float
    lines: tuple[Line, ...]

    def summary(self) -> dict[str, Any]:
        """See `Report`."""
        settings = self.run.settings
        return {
            "task": settings.task,
            "model": settings.model,
            "seeds": settings.seeds,
            "complete": self.run.complete,
            "delta": self.delta,
            "lines": [asdict(line) for line in self.lines],
        }

    def heading(self) -> str:
        """See `Report`."""
        done, wanted = len(self.run.records), self.run.settings.seeds
        unfinished = "" if done == wanted else f", UNFINISHED: {done} of {wanted}"
        return f"{self.run.settings.task}: made-up names, {wanted} seeds{unfinished}"

    def tables(self) -> list[Table]:
        """Accuracy with its interval, a column for each number of pairs."""
        cells = []
        for line in self.lines:
            group = "" if line.group_size is None else str(line.group_size)
            epsilon = "no noise" if line.epsilon is None else f"{line.epsilon:g}"
            cell = f"{100 * line.accuracy:.1f} ({100 * line.low:.1f} to {100 * line.high:.1f})"
            cells.append(((line.method, group, epsilon), line.pairs, cell))
        title = f"Right names in percent, 95 % intervals, delta {self.delta:g}"
        columns = {n: f"{n} pairs" for n in sorted({line.pairs for line in self.lines})}
        return [side_by_side(title, ("method", "per expert", "epsilon"), columns, cells)]


def arms(methods: Sequence[str], group_sizes: Sequence[int]) -> list[Arm]:
    """Every method with every group size, where it has one.

    Raises:
        ConfigurationError: A method is unknown, asks for a query without content, or a group size
            is below 1.
    """
    found: list[Arm] = []
    for name in methods:
        method = make(name)
        if method.takes_priors or name == "sampling":
            raise ConfigurationError(f"method {name!r} has no rows of pictures; leave it out")
        if "group_size" in method.parameters:
            found += [Arm(make(name, group_size=size), size) for size in group_sizes]
        else:
            found.append(Arm(method, None))
    return found


def run(
    model: VisionModel,
    task: ImageTask,
    wanted: Sequence[Arm],
    folder: Path,
    *,
    pairs: Sequence[int],
    seeds: int,
    epsilon: float,
    delta: float,
    on_progress: Progress | None = None,
) -> None:
    """Read every seed that the folder does not have yet.

    Args:
        model: Reads pictures.
        task: The pictures.
        wanted: What will be compared.
        folder: Where rows are kept; made if it is not there.
        pairs: Sizes of the context; a smaller one is the beginning of a larger one.
        seeds: How many contexts, of one query each.
        epsilon: Kept beside the rows, which do not depend on it.
        delta: The same.
        on_progress: Called with the number of seeds that are done, and of all.

    Raises:
        ConfigurationError: Some classes have fewer pictures than a context needs, or the folder
            holds another run.
    """
    if not pairs or min(*pairs, seeds, 1) < 1:
        raise ConfigurationError("pairs and seeds must be at least 1")
    most, names = max(pairs), NAMES[: len(task.classes)]
    check_size(task, most)
    rows = wanted_layouts([arm.method for arm in wanted], pairs)
    settings = Settings(
        task=task.name,
        data=task.digest(),
        model=model.fingerprint,
        experts=tuple(sorted(pairs)),
        seeds=seeds,
        queries=1,
        text_tokens=0,
        layouts=tuple(sorted(f"{name_of(layout)} of {n}" for layout, n in rows)),
        kind="images",
    )
    reporting = Reporting(tuple(arm.method.name for arm in wanted), epsilon, delta)
    every = (*task.pool, *task.test)

    @lru_cache(_PICTURES)
    def picture(place: int) -> Picture | None:
        return read_picture(every[place].image, model.side)

    def scored(seed: int, query: int) -> Record:
        drawn = draw(task, seed, most)
        examples = [
            None if (own := picture(place)) is None else Example(own, names[name])
            for place, name in drawn.context
        ]
        found = rows_of_pairs(model, rows, seed, examples, picture(drawn.query), names)
        return Record(seed, query, names, drawn.right, found)

    keep_scores(folder, settings, reporting, scored, on_progress)


def check_size(task: ImageTask, pictures: int) -> None:
    """Raise unless any classes that may get names have so many pictures to learn from.

    Raises:
        ConfigurationError: They have not.
    """
    sizes = sorted(sum(d.text == name for d in task.pool) for name in task.classes)
    named = sizes[: len(NAMES)]
    if sum(named) < pictures:
        raise ConfigurationError(
            f"{task.name}: {len(named)} classes may have fewer than {pictures} pictures together; "
            "give fewer pairs"
        )


@dataclass(frozen=True, slots=True)
class Drawn:
    """The draws of a seed.

    Attributes:
        context: For each pair the place of its picture in the pool, and of its name.
        query: Place of the query's picture, behind those of the pool.
        right: Place of its name.
    """

    context: tuple[tuple[int, int], ...]
    query: int
    right: int


def draw(task: ImageTask, seed: int, pairs: int) -> Drawn:
    """The classes, the context and the query of a seed."""
    names = named_classes(task, seed)

    def some(half: str, documents: Sequence[Any], number: int) -> list[int]:
        places = [place for place, d in enumerate(documents) if d.text in names]
        return [places[i] for i in shuffled(f"{seed}/{half}", len(places))[:number]]

    context = some("context", task.pool, pairs)
    (query,) = some("query", task.test, 1)
    return Drawn(
        tuple((place, names[task.pool[place].text]) for place in context),
        len(task.pool) + query,
        names[task.test[query].text],
    )


def named_classes(task: ImageTask, seed: int) -> dict[str, int]:
    """The classes of a seed that have a made-up name, with its place in ``NAMES``."""
    classes = task.classes
    names = {classes[i]: n for n, i in enumerate(shuffled(f"{seed}/classes", len(classes)))}
    return {label: n for label, n in names.items() if n < len(NAMES)}


def build_images_report(
    run: Run,
    wanted: Sequence[Arm],
    epsilons: Sequence[float],
    delta: float,
    on_progress: Progress | None = None,
) -> ImagesReport:
    """Draw a label for every seed, arm, epsilon and number of pairs.

    Raises:
        ConfigurationError: The run has no rows yet, or an epsilon or delta is outside its range.
    """
    if not run.records:
        raise ConfigurationError(f"{run.name}: the run has no rows yet")
    cells = [
        (arm, epsilon, n)
        for arm in wanted
        for epsilon in (epsilons if arm.method.private else (None,))
        for n in run.settings.experts
    ]
    lines = []
    for done, cell in enumerate(cells):
        if on_progress is not None:
            on_progress(done, len(cells))
        lines.append(_line(run.records, *cell, delta))
    return ImagesReport(run, delta, tuple(lines))


def rows_of_pairs(
    model: VisionModel,
    wanted: Wanted,
    seed: int,
    examples: Sequence[Example | None],
    query: Picture | None,
    names: Sequence[str],
) -> dict[Subset, Sequence[float]]:
    """Rows of the experts: none for one with nothing to read, and none at all without a query."""
    if query is None:
        return {}
    read: dict[Subset, Sequence[Example]] = {}
    for subset in sorted(distinct(wanted, Coins(seed, 0))[0]):
        own = [example for i in subset if (example := examples[i]) is not None]
        if own or not subset:
            read[subset] = own
    if not read:
        return {}
    rows = rows_of_experts(model, list(read.values()), query, names).tolist()
    return dict(zip(read, rows, strict=True))


def _line(
    records: Sequence[Record], arm: Arm, epsilon: float | None, pairs: int, delta: float
) -> Line:
    from scipy.stats import binomtest

    calibrated = arm.method.calibrate(Budget(epsilon or 1.0, delta))
    probabilities, right = [], 0
    for record in records:
        views = _views(record, arm.method.layouts(pairs), pairs)
        distribution = arm.method.distribution(views, calibrated)
        probabilities.append(float(distribution[record.right]))
        name = f"{record.seed}/{arm.method.name}/{arm.group_size}/{epsilon}/{pairs}"
        coin = random.Random(name).random()  # noqa: S311
        drawn = int((distribution.cumsum(0) <= coin).sum())
        right += drawn == record.right
    interval = binomtest(right, len(records)).proportion_ci(0.95, method="exact")
    return Line(
        method=arm.method.name,
        group_size=arm.group_size,
        pairs=pairs,
        epsilon=epsilon,
        accuracy=right / len(records),
        low=float(interval.low),
        high=float(interval.high),
        expected=fmean(probabilities),
        seeds=len(records),
    )


def _views(record: Record, layouts: Iterable[Layout], pairs: int) -> Views:
    """The rows of each layout, without experts that had nothing to read, as in the private path."""
    coins = Coins(record.seed, record.query)
    found: dict[Layout, torch.Tensor] = {}
    for layout in layouts:
        subsets = coins.subsets(layout, pairs)
        known = [s for s in subsets if s in record.rows and (s or isinstance(layout, ZeroShot))]
        rows = torch.tensor([record.rows[s] for s in known], dtype=torch.float64)
        found[layout] = torch.log_softmax(rows.reshape(len(known), len(record.labels)), dim=1)
    return found
