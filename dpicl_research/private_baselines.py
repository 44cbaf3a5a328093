"""Private classifiers of other libraries on table data: naive Bayes and logistic regression.

Both are diffprivlib's, with the bounds of our public schemas: without bounds it reads them off the
private rows and warns. Its noise is drawn by its own generator; rows here are public benchmark
data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import MissingDependencyError
from dpicl_rag.tabular.schema import Number, Row
from dpicl_research.table_tasks import TableTask

Matrix = npt.NDArray[np.float64]
Predict = Callable[[], npt.NDArray[np.int64]]

PEERS = ("diffprivlib naive Bayes", "diffprivlib logistic regression")
"""Names, in the order of `peers`."""


def peer_models() -> Any:
    """The module of diffprivlib that has the peers.

    Raises:
        MissingDependencyError: It is not installed, or not with a scikit-learn that it can be
            imported beside; names the command.
    """
    try:
        return import_module("diffprivlib.models")
    except ImportError as error:
        raise MissingDependencyError(
            "diffprivlib cannot be imported; run `pip install diffprivlib==0.6.6 "
            "'scikit-learn<1.6'`"
        ) from error


def peers(task: TableTask, epsilon: float) -> Iterator[tuple[str, Predict]]:
    """Classifiers by name; each call of one learns anew.

    Args:
        task: The data set.
        epsilon: Each of them is epsilon-DP.

    Raises:
        MissingDependencyError: diffprivlib cannot be imported.
    """
    models = peer_models()
    labels = np.array([task.schema.encode(row).label for row in task.train])
    codes, tests = matrices(task, one_hot=False)
    units, unit_tests = matrices(task, one_hot=True)
    low = np.zeros(codes.shape[1])
    high = np.array([1.0 if isinstance(c, Number) else c.size - 1.0 for c in task.schema.columns])
    # A row's numbers are at most 1, and of each category's indicators exactly one is 1.
    norm = math.sqrt(len(task.schema.columns))

    def predicted(model: Any, rows: Matrix, queries: Matrix) -> npt.NDArray[np.int64]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best: npt.NDArray[np.int64] = model.fit(rows, labels).predict(queries)
        return best

    def bayes() -> npt.NDArray[np.int64]:
        model = models.GaussianNB(epsilon=epsilon, bounds=(low, high), priors=None)
        return predicted(model, codes, tests)

    def regression() -> npt.NDArray[np.int64]:
        model = models.LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=500)
        return predicted(model, units, unit_tests)

    yield from zip(PEERS, (bayes, regression), strict=True)


def matrices(task: TableTask, *, one_hot: bool) -> tuple[Matrix, Matrix]:
    """Private rows and queries in numbers, by public bounds: [rows, features] each.

    Args:
        task: The data set.
        one_hot: An indicator of each value of a category, in place of its place.
    """

    def features(row: Row) -> list[float]:
        found: list[float] = []
        for column in task.schema.columns:
            value = row.get(column.name)
            if isinstance(column, Number):
                found.append((column.clamped(value) - column.low) / (column.high - column.low))
            elif one_hot:
                found += [float(column.place(value) == at) for at in range(column.size)]
            else:
                found.append(float(column.place(value)))
        return found

    return np.array(list(map(features, task.train))), np.array(list(map(features, task.test)))
