"""The papers' protocol: seeds times queries, examples drawn at random and not per class.

The model is asked once for every distinct set of examples, whatever method, number of experts or
epsilon will use the answer. Methods are then compared from these scores in no time.
This reads benchmark data: its coins are repeatable and nothing is charged. It is not the private
path.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.methods.base import Method
from dpicl_rag.prompts import CONTENT_FREE
from dpicl_research.context_rows import Coins, Rows, distinct, name_of
from dpicl_research.label_scores import Scorer, Subset
from dpicl_research.scores_folder import Kind, Record, Reporting, Settings, keep_scores
from dpicl_research.tasks import Item, Task

Wanted = Sequence[tuple[Rows, int]]
"""Layouts, each over a number of experts."""


def wanted_layouts(methods: Sequence[Method], experts: Sequence[int]) -> Wanted:
    """The distinct rows that methods need, for each number of experts."""
    return tuple(
        dict.fromkeys((row, n) for n in experts for method in methods for row in method.layouts(n))
    )


def run(
    model: LanguageModel,
    task: Task,
    wanted: Wanted,
    folder: Path,
    reporting: Reporting,
    *,
    seeds: int,
    queries: int,
    text_tokens: int,
    kind: Kind = "accuracy",
    on_progress: Progress | None = None,
) -> None:
    """Score every query of every seed that the folder does not have yet.

    Args:
        model: Any language model.
        task: The task.
        wanted: The rows to compute; the context for fewer experts is the beginning of that for
            more.
        folder: Where scores are kept; made if it is not there.
        reporting: Kept beside them.
        seeds: Number of contexts.
        queries: Queries for each, drawn anew.
        text_tokens: Texts are cut to this public number of tokens.
        kind: What the queries are; see ``Settings``. For ``membership`` there are twice as many
            as experts.
        on_progress: Called with the number of queries that are done, and of all.

    Raises:
        ConfigurationError: The task has fewer examples than experts or fewer test items than
            queries, a prompt does not fit the model, or the folder holds another run.
    """
    experts = tuple(sorted({n for _, n in wanted}))
    if not experts or experts[0] < 1 or min(seeds, queries, text_tokens) < 1:
        raise ConfigurationError("experts, seeds, queries and text tokens must be at least 1")
    if experts[-1] > len(task.pool):
        raise ConfigurationError(
            f"{task.name} has {len(task.pool)} examples, and {experts[-1]} experts need one each; "
            "give fewer experts"
        )
    if kind == "membership" and queries != 2 * experts[-1]:
        raise ConfigurationError("membership is asked of the examples and of as many others")
    source = task.pool if kind == "membership" else task.test
    if queries > len(source):
        raise ConfigurationError(
            f"{task.name} has {len(source)} queries, and {queries} were asked for"
        )
    settings = Settings(
        task=task.name,
        data=data_digest(task),
        model=model.fingerprint,
        experts=experts,
        seeds=seeds,
        queries=queries,
        text_tokens=text_tokens,
        layouts=tuple(sorted(f"{name_of(layout)} of {n}" for layout, n in wanted)),
        kind=kind,
    )
    scorer = Scorer(model, task, text_tokens)

    @lru_cache(1)  # seed after seed
    def drawn(seed: int) -> tuple[tuple[Item, ...], tuple[Item, ...], dict[Subset, list[float]]]:
        context = context_of(task, seed, experts[-1])
        read = (distinct(wanted, Coins(seed, number)) for number in range(queries))
        scorer.check(context, set().union(*(subset for both in read for subset in both)))
        return context, queries_of(task, seed, queries, kind), {}

    def scored(seed: int, number: int) -> Record:
        context, asked, calibration = drawn(seed)
        query = asked[number]
        with_query, without = distinct(wanted, Coins(seed, number))
        choice = scorer.choice(query)
        if not task.labels:
            calibration.clear()  # other labels, other scores
        missing = sorted(without - calibration.keys())
        if missing:
            calibration.update(scorer.score(context, CONTENT_FREE, choice, missing))
        rows = scorer.score(context, query.text, choice, sorted(with_query))
        free = {subset: calibration[subset] for subset in without}
        return Record(seed, number, choice.labels, choice.right, rows, free)

    keep_scores(folder, settings, reporting, scored, on_progress)


def context_of(task: Task, seed: int, size: int) -> tuple[Item, ...]:
    """The examples of a seed. Those for fewer experts are the first of those for more."""
    return tuple(task.pool[i] for i in shuffled(f"{seed}/context", len(task.pool))[:size])


def queries_of(task: Task, seed: int, number: int, kind: Kind) -> tuple[Item, ...]:
    """The queries of a seed. For ``membership``, the first half of them is the context."""
    if kind == "membership":
        return context_of(task, seed, number)
    return tuple(task.test[i] for i in shuffled(f"{seed}/queries", len(task.test))[:number])


def shuffled(name: str, number: int) -> list[int]:
    """The numbers below ``number`` in an order that follows from a name."""
    order = list(range(number))
    random.Random(name).shuffle(order)  # noqa: S311
    return order


def data_digest(task: Task) -> str:
    """A hash of a task's prompts and items."""
    digest = hashlib.sha256(repr((task.template, task.labels)).encode())
    for item in (*task.pool, *task.test):
        digest.update(repr(item).encode())
    return digest.hexdigest()[:16]
