"""Themes of a thousand records: how many of the true classes are named, and how true are shares?

``python -m benchmarks.surveys --out runs/surveys`` surveys AG News and DBpedia, whose classes are
known, and a made-up mailbox of ten problems, at epsilon 1, 2 and 4. Beside a survey stand the same
pipeline without noise, and private k-means on the same vectors under the same budget: Lloyd's steps
with Gaussian noise on the sums and sizes of clusters (Blum, Dwork, McSherry, Nissim 2005), from
public centres, after a public random projection. A theme belongs to the class of most of its units;
that is looked up, and not private.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.made_up_complaints import PROBLEMS, QUESTION, complaints
from dpicl_rag.accounting import DIRECT, epsilon_to_rho
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.ledger import open_account
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.requests import VOTES
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.retrieval.unit_vectors import UnitVectors, rounded
from dpicl_rag.retrieval.vectors import on_grid
from dpicl_rag.surveys.count_plans import survey_plan, tally_plan
from dpicl_rag.surveys.surveying import NEAR, surveyed
from dpicl_rag.surveys.vocabulary import Vocabulary, nearest_words, packaged_words
from dpicl_research.tasks import load_task

DELTA = 1e-5
MAILBOX, THREADS = "complaints", 2000  # the made-up mailbox
EPSILONS = (1.0, 2.0, 4.0)
# Of private k-means: clusters, Lloyd's steps, and dimensions after the projection.
CLUSTERS, STEPS, PROJECTED = 16, 3, 16

_NONE = DiscreteGaussian(0.01)  # is 0

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Outcome:
    """One survey.

    Attributes:
        task: AG News or DBpedia.
        units: How many records.
        epsilon: Of the survey.
        by: What made it.
        classes: How many classes there are.
        named: Classes to which a theme belongs.
        themes: How many themes.
        variation: Total variation of the told shares of classes from the true ones; units of no
            theme are told as of none.
        purity: Of units of a theme, how many are of its class.
    """

    task: str
    units: int
    epsilon: float
    by: str
    classes: int
    named: int
    themes: int
    variation: float
    purity: float


@dataclass(frozen=True)
class Records:
    """Records with their classes.

    Attributes:
        name: Of the task.
        vectors: Rounded ``[n, d]``.
        classes: Number of each record's class ``[n]``.
        labels: How many classes there are.
        question: The embedding of what they are asked, if anything ``[d]``.
    """

    name: str
    vectors: Vectors
    classes: npt.NDArray[np.intp]
    labels: int
    question: Vectors | None = None


def records(name: str, units: int, embedder: SentenceTransformerEmbedder) -> Records:
    """Records of a task, or threads of the made-up mailbox, drawn by a fixed seed."""
    question = None
    if name == MAILBOX:
        texts, answers = zip(*complaints(units), strict=True)
        labels: Sequence[str] = list(PROBLEMS)
        question = rounded(on_grid(embedder.embed([QUESTION], query=True)))[0]
    else:
        task = load_task(name)
        items = random.Random(1).sample(list(task.pool), units)
        texts, answers = zip(*((item.text, item.answer) for item in items), strict=True)
        labels = task.labels
    vectors = rounded(on_grid(embedder.embed(texts)))
    classes = np.array([labels.index(answer) for answer in answers])
    return Records(name, vectors, classes, len(labels), question)


def outcome(
    of: Records, epsilon: float, by: str, middles: Vectors, told: Sequence[float], least: float
) -> Outcome:
    """Compare themes with classes.

    Args:
        of: The records.
        epsilon: Of the survey.
        by: What made it.
        middles: Of the themes ``[themes, d]``.
        told: How many units each theme has, as it was told.
        least: Cosine from which a unit is of a theme.
    """
    true = np.bincount(of.classes, minlength=of.labels) / len(of.classes)
    shares, right, inside = np.zeros(of.labels), 0, 0
    total = max(1.0, float(len(of.classes)))
    owners = set()
    if len(middles):
        scores = of.vectors @ middles.T
        nearest = np.where(scores.max(axis=1) >= least, scores.argmax(axis=1), -1)
        for theme, count in enumerate(told):
            members = np.bincount(of.classes[nearest == theme], minlength=of.labels)
            if not members.sum():
                continue
            owner = int(members.argmax())
            owners.add(owner)
            shares[owner] += max(0.0, count) / total
            right, inside = right + int(members.max()), inside + int(members.sum())
    none = max(0.0, 1 - float(shares.sum()))
    variation = (float(np.abs(true - shares).sum()) + none) / 2
    return Outcome(
        task=of.name,
        units=len(of.classes),
        epsilon=epsilon,
        by=by,
        classes=of.labels,
        named=len(owners),
        themes=len(told),
        variation=variation,
        purity=right / max(1, inside),
    )


def survey(of: Records, epsilon: float, vocabulary: Vocabulary, *, noise: bool) -> Outcome:
    """A survey as the library makes it; without noise its thresholds stay."""
    config = PrivacyConfig.create(epsilon=epsilon, delta=DELTA)
    plan = survey_plan(config, len(vocabulary.words), VOTES)
    units = UnitVectors(of.vectors, np.arange(len(of.vectors)))
    if of.question is not None:
        vocabulary = vocabulary.beside(of.question)
    if not noise:
        counts = plan.mechanism
        words, shares = (replace(one, noise=_NONE) for one in (counts.words, counts.shares))
        plan = replace(plan, mechanism=replace(counts, words=words, shares=shares))
    with open_account(None, corpus="survey", rho=plan.rho) as account:
        found = surveyed(units.blocks, vocabulary, plan, VOTES, account, Randomness())
    middles = [theme.vector for theme in found.themes]
    stacked = rounded(np.stack(middles)) if middles else np.zeros((0, of.vectors.shape[1]))
    by = "survey" if noise else "survey without noise"
    return outcome(of, epsilon, by, stacked.astype(np.float32), found.counts[:-1], NEAR)


def private_k_means(of: Records, epsilon: float, seed: int) -> Outcome:
    """Private k-means: a unit moves one size by 1 and one sum by its length, 1 at most."""
    public = np.random.default_rng(0)
    secret = np.random.default_rng([seed, round(epsilon * 100)])
    projection = public.normal(size=(of.vectors.shape[1], PROJECTED)) / np.sqrt(PROJECTED)
    points = of.vectors @ projection
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    middles = public.normal(size=(CLUSTERS, PROJECTED))
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    # Half of each step's price for sizes and half for sums.
    sigma = 1 / np.sqrt(epsilon_to_rho(epsilon, DELTA) / STEPS)
    sizes = np.zeros(CLUSTERS)
    for _ in range(STEPS):
        nearest = (points @ middles.T).argmax(axis=1)
        sizes = np.bincount(nearest, minlength=CLUSTERS) + secret.normal(0, sigma, CLUSTERS)
        sums = np.stack([points[nearest == cluster].sum(axis=0) for cluster in range(CLUSTERS)])
        sums = sums + secret.normal(0, sigma, sums.shape)
        middles = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    projected = Records(of.name, points.astype(np.float32), of.classes, of.labels)
    kept = np.flatnonzero(sizes > 2 * sigma)
    return outcome(
        projected,
        epsilon,
        "private k-means",
        middles[kept].astype(np.float32),
        sizes[kept].tolist(),
        -np.inf,
    )


def tally(of: Records, names: Vectors, epsilon: float) -> float:
    """The largest error of a told share, of a tally by vectors.

    Args:
        of: The records.
        names: Embeddings of what the classes are called ``[labels, d]``.
        epsilon: Of the tally.
    """
    config = PrivacyConfig.create(epsilon=epsilon, delta=DELTA)
    noise = tally_plan(config, DIRECT, 0.0, of.labels).mechanism
    units = UnitVectors(of.vectors, np.arange(len(of.vectors)))
    *counts, _ = nearest_words(units.blocks, names, 1)
    told = np.maximum(0, noise.draw(counts, Randomness()))
    true = np.bincount(of.classes, minlength=of.labels) / len(of.classes)
    return float(np.abs(told / told.sum() - true).max())


def mean(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Means over seeds."""
    names = ("named", "themes", "variation", "purity")
    return {name: float(np.mean([getattr(one, name) for one in outcomes])) for name in names}


def plot(outcomes: Sequence[Outcome], file: Path) -> None:
    """Classes that are named against epsilon, a panel for each task and number of units."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    cases = sorted({(one.task, one.units) for one in outcomes})
    figure, axes = pyplot.subplots(
        1, len(cases), figsize=(4 * len(cases), 3.5), layout="constrained", squeeze=False
    )
    for axis, (task, units) in zip(axes[0], cases, strict=True):
        own = [one for one in outcomes if (one.task, one.units) == (task, units)]
        for by in dict.fromkeys(one.by for one in own):
            points = {}
            for epsilon in sorted({one.epsilon for one in own}):
                found = [one for one in own if (one.by, one.epsilon) == (by, epsilon)]
                points[epsilon] = mean(found)["named"]
            axis.plot(list(points), list(points.values()), marker="o", label=by)
        axis.set(title=f"{task}, {units:,} units", xlabel="epsilon", ylabel="classes named")
        axis.set_ylim(0, own[0].classes + 0.5)
    axes[0][0].legend()
    figure.savefig(file, dpi=110)


def main() -> None:
    """Survey, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["agnews", "dbpedia"])
    parser.add_argument("--units", nargs="+", type=int, default=[1000, 4000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/surveys"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console, embedder = Console(), SentenceTransformerEmbedder()
    vocabulary = Vocabulary.embedded(packaged_words(), embedder)
    outcomes: list[Outcome] = []
    cases = [(task, units) for task in options.tasks for units in options.units]
    cases.append((MAILBOX, THREADS))
    for task, units in track(cases, "surveying", console=console):
        of = records(task, units, embedder)
        for epsilon in EPSILONS:
            outcomes.append(survey(of, epsilon, vocabulary, noise=False))
            for seed in range(options.seeds):
                outcomes.append(survey(of, epsilon, vocabulary, noise=True))
                outcomes.append(private_k_means(of, epsilon, seed))
        if task == MAILBOX:
            named = embedder.embed([f"{QUESTION} {name}" for name in PROBLEMS])
            errors = [tally(of, rounded(on_grid(named)), 1.0) for _ in range(options.seeds)]
            console.print(
                f"tally by vectors, epsilon 1: largest error of a share {max(errors):.3f}"
            )
    lines = "".join(json.dumps(asdict(one)) + "\n" for one in outcomes)
    (options.out / "outcomes.jsonl").write_text(lines, encoding="utf-8")
    table = Table(
        "task", "units", "epsilon", "by", "classes named", "themes", "variation", "purity"
    )
    for key in dict.fromkeys((one.task, one.units, one.epsilon, one.by) for one in outcomes):
        own = [one for one in outcomes if (one.task, one.units, one.epsilon, one.by) == key]
        means = mean(own)
        named = f"{means['named']:.1f} of {own[0].classes}"
        numbers = (f"{means[name]:.2f}" for name in ("variation", "purity"))
        table.add_row(
            *map(str, key[:2]), f"{key[2]:g}", key[3], named, f"{means['themes']:.0f}", *numbers
        )
    console.print(table)
    plot(outcomes, options.out / "surveys.png")


if __name__ == "__main__":
    main()
