"""The releases of a seed of an evaluation on table rows: demonstrations, classifiers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.tabular.aggregates import release_aggregates
from dpicl_rag.tabular.fresh_rows import FreshRows
from dpicl_rag.tabular.local_privacy import bits_from_reports, local_report, tables_from_reports
from dpicl_rag.tabular.noisy_tables import NoisyTables, exact_counts, frozen, release_tables
from dpicl_rag.tabular.schema import Row, Schema, answer, asked
from dpicl_research.logistic_regression import logistic_regression
from dpicl_research.paper_protocol import shuffled
from dpicl_research.private_baselines import peers
from dpicl_research.published_groups import CODE_GROUPS, GROUPS, published_groups
from dpicl_research.published_sampling import published_rate
from dpicl_research.table_arms import (
    AGGREGATES,
    BITS,
    CODE,
    FRESH,
    ONE,
    PUBLISHED,
    REDRAWN,
    TABLES,
    Arm,
    Settings,
    sampled,
)
from dpicl_research.table_tasks import TableTask

Shots = list[tuple[str, str]]
"""Texts and labels of demonstrations."""


def queries_of(task: TableTask, settings: Settings, seed: int) -> list[int]:
    """Numbers of the test rows that a seed asks about."""
    return shuffled(f"{seed}/queries", len(task.test))[: settings.queries]


def noiseless(rows: Iterable[Row], schema: Schema) -> NoisyTables:
    """Tables without noise. Not private: for comparison only."""
    counted = exact_counts(map(schema.encode, rows), schema)
    return NoisyTables(schema, frozen(counted), None, 0.0, None)


def not_private(task: TableTask) -> dict[str, float]:
    """Accuracies of the classifiers without noise, by the keys of their arms."""
    most = np.bincount([task.schema.encode(row).label or 0 for row in task.train]).argmax()
    found = {
        "majority class": np.full(len(task.test), most),
        "logistic regression": logistic_regression(task),
        "naive Bayes": noiseless(task.train, task.schema).naive_bayes().best(task.places),
    }
    return {Arm(name).key: _share_right(task, labels) for name, labels in found.items()}


def released(
    task: TableTask, settings: Settings, seed: int, without_noise: Mapping[str, float]
) -> dict[str, Any]:
    """All releases of a seed.

    Args:
        task: The data set.
        settings: Of the run.
        seed: Of the real demonstrations and the queries; noise is secret.
        without_noise: From `not_private`.

    Returns:
        ``alone``, accuracies without a language model by the keys of arms; ``shots``,
        demonstrations by arm; and where queries have rows of their own ``fresh``, demonstrations
        by query and arm.
    """
    schema, more = task.schema, settings.more
    grouped_by = schema
    if more.groups != "ours":
        grouped_by = published_groups(task.name, CODE_GROUPS if more.groups == CODE else GROUPS)
    alone = dict(without_noise)
    shots: dict[str, Shots] = {Arm("zero-shot", None, 0).key: []}
    asking = queries_of(task, settings, seed)
    fresh: dict[str, dict[str, Shots]] = {str(number): {} for number in asking}

    def classified(method: str, epsilon: float, labels: npt.NDArray[np.int64]) -> None:
        alone[Arm(method, epsilon).key] = _share_right(task, labels)

    def show(method: str, epsilon: float | None, rows: Sequence[Row]) -> None:
        shots[Arm(method, epsilon, len(rows)).key] = in_words(rows, schema)

    def show_each(method: str, epsilon: float, draw: Callable[[], Sequence[Row]]) -> None:
        for shown in fresh.values():
            rows = draw()
            shown[Arm(method, epsilon, len(rows)).key] = in_words(rows, schema)

    order = shuffled(f"{seed}/real", len(task.train))
    for k in settings.ks:
        show("real", None, [task.train[at] for at in order[:k]])
    for epsilon in settings.epsilons:
        tabled = release_tables(task.train, schema, epsilon)
        sent = (local_report(row, schema, epsilon) for row in task.train)
        local = tables_from_reports(sent, schema, epsilon)
        bits = bits_from_reports(
            (local_report(row, schema, epsilon, method="bits") for row in task.train),
            schema,
            epsilon,
        )
        classified(f"naive Bayes, {TABLES}", epsilon, tabled.naive_bayes().best(task.places))
        classified(f"naive Bayes, {ONE}", epsilon, local.naive_bayes().best(task.places))
        for name, predict in peers(task, epsilon) if more.peers else ():
            classified(name, epsilon, predict())
        for k in settings.ks:
            names = group_by(grouped_by, k)
            show(TABLES, epsilon, tabled.rows(k))
            show(ONE, epsilon, local.rows(k))
            show(BITS, epsilon, bits.rows(k))
            show(
                AGGREGATES, epsilon, release_aggregates(task.train, grouped_by, epsilon, names).rows
            )
            for text in more.rates:
                rate = rate_of(text, task.name)
                made = release_aggregates(task.train, grouped_by, epsilon, names, rate=rate)
                show(sampled(text), epsilon, made.rows)
            if more.redrawn:
                show_each(REDRAWN, epsilon, partial(bits.rows, k))
            if more.fresh:
                each = FreshRows(task.train, schema, epsilon, k=k, queries=len(asking))
                show_each(FRESH, epsilon, each.for_query)
    return {"alone": alone, "shots": shots, **({"fresh": fresh} if more.own_rows else {})}


def group_by(schema: Schema, k: int) -> tuple[str, ...]:
    """Public names that make k groups: none, the label, then columns."""
    more = k.bit_length() - 2
    names = schema.group_by or tuple(column.name for column in schema.columns)
    if more > len(names) or (k > 1 and len(schema.label.values) != 2):
        raise ConfigurationError(
            f"{k} groups need a label of two answers and {max(more, 0)} columns in group_by"
        )
    return () if k == 1 else (schema.label.name, *names[:more])


def rate_of(text: str, task: str) -> float:
    """The rate that a setting names for a data set.

    Raises:
        ConfigurationError: The paper has no such data set.
    """
    if text != PUBLISHED:
        return float(text)
    rate = published_rate(task)
    if rate is None:
        raise ConfigurationError(f"the paper samples no data set {task!r}; give a number")
    return rate


def in_words(rows: Sequence[Row], schema: Schema) -> Shots:
    """Demonstrations as texts and labels."""
    return [(asked(row, schema), answer(row, schema)) for row in rows]


def _share_right(task: TableTask, labels: npt.NDArray[np.int64]) -> float:
    return float(np.mean(labels == task.right))
