"""Classifiers under pure epsilon on the table data sets: our released tables beside peers.

``python -m benchmarks.tabular --epsilon 1,10 --runs 10`` needs no language model. Naive Bayes on
released tables and on local reports stands beside naive Bayes and logistic regression of
diffprivlib (``pip install diffprivlib==0.6.6 'scikit-learn<1.6'``; without it their lines are left
out), both with the bounds of our public schemas: without bounds it reads them off the private rows
and warns. The data are found through DPICL_RAG_DATA.

``python -m benchmarks.tabular --published`` reads nothing: it prints what the settings of DP-TabICL
cost, beside what is said of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import suppress
from statistics import fmean, stdev

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import MissingDependencyError
from dpicl_rag.tabular.local_privacy import local_report, tables_from_reports
from dpicl_rag.tabular.noisy_tables import release_tables
from dpicl_rag.tabular.schema import PACKAGED
from dpicl_research.logistic_regression import logistic_regression
from dpicl_research.private_baselines import Predict, peer_models, peers
from dpicl_research.published_bits import bits_table
from dpicl_research.published_sampling import fresh_table, sampling_table, sizes_table
from dpicl_research.table_releases import noiseless
from dpicl_research.table_tasks import TableTask, load_tables


def ours(task: TableTask, epsilon: float) -> Iterator[tuple[str, Predict]]:
    """Naive Bayes on what the library releases."""
    schema = task.schema

    def local() -> npt.NDArray[np.int64]:
        sent = (local_report(row, schema, epsilon) for row in task.train)
        return tables_from_reports(sent, schema, epsilon).naive_bayes().best(task.places)

    yield (
        "naive Bayes, tables",
        lambda: release_tables(task.train, schema, epsilon).naive_bayes().best(task.places),
    )
    yield "naive Bayes, local one-attribute", local


def main() -> None:
    """Print accuracies in percent, means and standard deviations over runs, as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="all")
    parser.add_argument("--epsilon", default="1,10")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--published", action="store_true")
    given = parser.parse_args()
    if given.published:
        for table in (bits_table(), sampling_table(), sizes_table(), fresh_table()):
            print(table.markdown())
        return
    names, there = PACKAGED if given.task == "all" else given.task.split(","), False
    with suppress(MissingDependencyError):
        there = peer_models() is not None
    for task in load_tables(names):

        def show(method: str, epsilon: float | None, found: list[float], name: str) -> None:
            line = {"task": name, "method": method, "epsilon": epsilon, "percent": fmean(found)}
            if len(found) > 1:
                line["deviation"] = stdev(found)
            print(json.dumps(line), flush=True)

        def percent(best: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> float:
            return 100 * float(np.mean(best == right))

        exact = noiseless(task.train, task.schema).naive_bayes().best(task.places)
        show("naive Bayes", None, [percent(exact, task.right)], task.name)
        line = logistic_regression(task)
        show("logistic regression", None, [percent(line, task.right)], task.name)
        for epsilon in map(float, given.epsilon.split(",")):
            for method, predict in (*ours(task, epsilon), *(peers(task, epsilon) if there else ())):
                found = [percent(predict(), task.right) for _ in range(given.runs)]
                show(method, epsilon, found, task.name)


if __name__ == "__main__":
    main()
