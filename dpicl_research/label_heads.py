"""Released label heads beside the methods that label, and against a private logistic regression.

A head is released once, and its epsilon covers all answers. It reads the task's examples and no
language model: its vectors are those of the packaged embeddings.

**The regression** is full-batch gradient descent on the same vectors, with Gaussian noise on the
sum of gradients in every round (Song, Chaudhuri, Sarwate 2013; Bassily, Smith, Thakurta 2014), each
gradient cut to length 1; its rounds share the rho of the head. It is given the number of examples,
which is private, for its step, so it is no release; it is what a head has to beat. The direction of
the mean vector, which the first round's noisy sums show, is projected out: it is the same in all
texts, and steps would have to be small for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpicl_rag.accounting import DELTA, Adjacency, Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.vectors import on_grid
from dpicl_rag.synthesis.label_head import (
    LabelHead,
    exact_sums,
    release_label_head,
)
from dpicl_rag.synthesis.pools import LabelledDocument
from dpicl_research.comparison import Estimate, Line
from dpicl_research.paper_protocol import queries_of, shuffled
from dpicl_research.report import LinesReport, Table
from dpicl_research.run_folder import Results, read_lines
from dpicl_research.run_tables import EPSILONS
from dpicl_research.scores_folder import Run
from dpicl_research.tasks import Item, Task

NAME = "label-head"
"""Its name among the methods of `evaluate run`."""

SHORT, LONG = (10, 30.0), (20, 60.0)
"""Rounds and step of the regression up to epsilon 2, and above: the best of twelve pairs, on
held-out training examples of AG News, TREC, DBpedia and SST-2 at epsilon 1, and at 4 and 8."""

_LITTLE = 2.0
_FILE = "label-heads.jsonl"

Matrix = npt.NDArray[np.float64]


class KeptVectors:
    """An embedding model that embeds each text once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.fingerprint = embedder.fingerprint
        self._kept: dict[str, npt.NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        """See `Embedder`."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._kept]
        self._kept.update(zip(missing, self._embedder.embed(missing, query=query), strict=True))
        return np.array([self._kept[text] for text in texts], dtype=np.float32)


def score(
    task: Task,
    folder: Path,
    *,
    budget: Budget,
    seeds: int,
    queries: int,
    embedder: Embedder | None = None,
    on_progress: Progress | None = None,
) -> None:
    """Score the queries of every seed by a head of its own, at all epsilons of a report.

    Args:
        task: Its whole pool is read.
        folder: Of the run; what is there stays.
        budget: Of all answers together.
        seeds: Those of the run.
        queries: Those of the run.
        embedder: The packaged one if None.
        on_progress: Called with releases done and of all.

    Raises:
        ConfigurationError: The task has no list of labels.
    """
    require_labels(task)
    vectors = KeptVectors(embedder or SentenceTransformerEmbedder())
    results = Results(folder / _FILE, "seed", "epsilon", "delta")
    epsilons = sorted({budget.epsilon, *EPSILONS})
    wanted = [(seed, epsilon, budget.delta) for seed in range(seeds) for epsilon in epsilons]
    for seed, epsilon, delta in results.missing(wanted, on_progress):
        head = release_label_head(
            _documents(task.pool), task.labels, epsilon=epsilon, delta=delta, embedder=vectors
        )
        asked = queries_of(task, seed, queries, "accuracy")
        results.add((seed, epsilon, delta), {"accuracy": share_right(head, asked)})


def head_lines(folder: Path, run: Run, budget: Budget) -> list[Line]:
    """The line of the head at a budget, for each number of experts, on which it does not depend."""
    found = {
        line["seed"]: line["accuracy"]
        for line in read_lines(folder / _FILE)
        if (line["epsilon"], line["delta"]) == (budget.epsilon, budget.delta)
    }
    note = "not in this run: run it again with this method, epsilon and delta"
    if budget.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
        note = "its heads were released for an example that is added or removed"
    elif len(found) >= run.settings.seeds:
        note = ""
    name = f"{NAME}, once for all answers"
    if note:
        unknown = (budget.epsilon, None, None, None, note)
        return [Line(name, experts, *unknown) for experts in run.settings.experts]
    right = Estimate.of([found[seed] for seed in range(run.settings.seeds)])
    known = (budget.epsilon, budget.epsilon, right.mean, right.error)
    return [Line(name, experts, *known) for experts in run.settings.experts]


def require_labels(task: Task) -> None:
    """Refuse a task whose queries bring their own candidates.

    Raises:
        ConfigurationError: It is one.
    """
    if not task.labels:
        raise ConfigurationError(f"{task.name} has no list of labels, which {NAME} needs")


def share_right(head: LabelHead, asked: Sequence[Item]) -> float:
    """Share of items whose label a head tells."""
    told = head.labels_of([item.text for item in asked])
    return sum(a == item.answer for a, item in zip(told, asked, strict=True)) / len(asked)


@dataclass(frozen=True, slots=True)
class HeadLine:
    """Accuracy of one method on one task.

    Attributes:
        method: Its name.
        epsilon: Of all answers; None without noise.
        accuracy: Mean over noises.
        deviation: Standard deviation over noises; None of one.
    """

    method: str
    epsilon: float | None
    accuracy: float
    deviation: float | None


class HeadReport(LinesReport[HeadLine]):
    """See `LinesReport`."""

    def tables(self) -> list[Table]:
        """A row for each method, a column for each epsilon."""
        epsilons = list(dict.fromkeys(line.epsilon for line in self.lines))
        heads = ["no noise" if one is None else f"epsilon {one:g}" for one in epsilons]
        rows = []
        for method in dict.fromkeys(line.method for line in self.lines):
            own = {line.epsilon: line for line in self.lines if line.method == method}
            rows.append((method, *(_shown(own.get(one)) for one in epsilons)))
        title = "{task}: {examples} examples, {queries} queries, {noises} noises, delta {delta:g}"
        return [Table(title.format(**self.settings), ("method", *heads), tuple(rows))]


def compare_heads(
    task: Task,
    epsilons: Sequence[float],
    *,
    noises: int = 20,
    examples: int = 3000,
    queries: int = 500,
    delta: float = DELTA,
    embedder: Embedder | None = None,
    on_progress: Progress | None = None,
) -> HeadReport:
    """Heads and logistic regressions on the same vectors.

    Args:
        task: Examples are drawn from its pool, queries from its test items, by a fixed order.
        epsilons: Each is of all answers together.
        noises: Releases at each epsilon.
        examples: Most examples.
        queries: Most queries.
        delta: Of each epsilon.
        embedder: The packaged one if None.
        on_progress: Called with releases done and of all.

    Raises:
        ConfigurationError: The task has no list of labels, or a number is outside its range.
    """
    require_labels(task)
    vectors = KeptVectors(embedder or SentenceTransformerEmbedder())
    learnt = [task.pool[at] for at in shuffled("0/pool", len(task.pool))[:examples]]
    asked = [task.test[at] for at in shuffled("0/queries", len(task.test))[:queries]]
    rows, labels = _matrix(vectors, learnt), _places(task, learnt)
    tests, right = _matrix(vectors, asked), _places(task, asked)

    def regressed(noise: float, epsilon: float) -> float:
        descent = SHORT if epsilon <= _LITTLE else LONG
        weights = regression(rows, labels, len(task.labels), noise, *descent, coins)
        return float(np.mean((tests @ weights.T).argmax(axis=1) == right))

    lines: list[HeadLine] = []
    done, coins = 0, np.random.default_rng(0)
    for epsilon in epsilons:
        found: dict[str, list[float]] = {}
        for _ in range(noises):
            head = release_label_head(
                _documents(learnt), task.labels, epsilon=epsilon, delta=delta, embedder=vectors
            )
            found.setdefault("label head", []).append(share_right(head, asked))
            alone = share_right(replace(head, sigma=0.0), asked)
            found.setdefault("label head without names", []).append(alone)
            found.setdefault("logistic regression", []).append(regressed(head.sigma, epsilon))
            done += 1
            if on_progress is not None:
                on_progress(done, noises * len(epsilons))
        lines += [_line(name, epsilon, values) for name, values in found.items()]
    sums = tuple(map(tuple, exact_sums(_documents(learnt), task.labels, vectors)))
    public = (0.0, vectors.fingerprint, math.inf, 0.0, math.inf, "none")
    exact = LabelHead(task.labels, sums, *public, vectors)
    lines.append(_line("label head", None, [share_right(exact, asked)]))
    lines.append(_line("logistic regression", None, [regressed(0.0, math.inf)]))
    numbers = {"examples": len(learnt), "queries": len(asked), "noises": noises, "delta": delta}
    settings = {"task": task.name, **numbers, "model": vectors.fingerprint}
    return HeadReport(settings, lines)


def regression(
    rows: Matrix,
    labels: npt.NDArray[np.int64],
    number: int,
    sigma: float,
    rounds: int,
    step: float,
    coins: np.random.Generator,
) -> Matrix:
    """Weights of a logistic regression by noisy gradient descent, [labels, d].

    Args:
        rows: Vectors of length 1, [n, d].
        labels: Their places.
        number: How many labels there are.
        sigma: Noise of one release over the length of a gradient; 0 without.
        rounds: At least 1.
        step: Of the mean gradient.
        coins: Repeatable: this reads benchmark data.
    """
    wanted = np.eye(number)[labels]
    noise = sigma * math.sqrt(rounds)
    shape = (number, rows.shape[1])
    sums = wanted.T @ rows + noise * coins.normal(size=shape)
    mean = sums.sum(axis=0) / np.linalg.norm(sums.sum(axis=0))
    rows = rows - np.outer(rows @ mean, mean)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    # The gradient at zero follows from the sums: labels are as likely there.
    weights = step / len(rows) * (sums - sums.mean(axis=0))
    weights = weights - np.outer(weights @ mean, mean)
    for _ in range(rounds - 1):
        logits = rows @ weights.T
        shares = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        rest = wanted - shares
        rest /= np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1.0)
        weights += step / len(rows) * (rest.T @ rows + noise * coins.normal(size=shape))
    across: Matrix = weights - np.outer(weights @ mean, mean)
    return across


def _documents(items: Iterable[Item]) -> list[LabelledDocument]:
    return [LabelledDocument(item.text, item.answer) for item in items]


def _matrix(vectors: Embedder, items: Sequence[Item]) -> Matrix:
    return on_grid(vectors.embed([item.text for item in items])).astype(np.float64)


def _places(task: Task, items: Sequence[Item]) -> npt.NDArray[np.int64]:
    return np.array([task.labels.index(item.answer) for item in items])


def _line(method: str, epsilon: float | None, values: Sequence[float]) -> HeadLine:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return HeadLine(method, epsilon, float(np.mean(values)), deviation)


def _shown(line: HeadLine | None) -> str:
    if line is None:
        return ""
    more = "" if line.deviation is None else f" ({100 * line.deviation:.1f})"
    return f"{100 * line.accuracy:.1f}{more}"
