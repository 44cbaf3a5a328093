"""Logistic regression on table rows, without privacy: what columns say together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpicl_research.table_tasks import TableTask


def logistic_regression(task: TableTask, penalty: float = 1.0) -> npt.NDArray[np.int64]:
    """Labels of the test rows by logistic regression on indicators of intervals and categories.

    Not private. Minimises the cross-entropy of a softmax by L-BFGS.

    Args:
        task: The data set.
        penalty: On half the squares of all weights.

    Returns:
        Places of labels, [test rows].
    """
    from scipy.optimize import minimize

    encoded = [task.schema.encode(row) for row in task.train]
    sizes = [column.size for column in task.schema.columns]
    features = _indicators(np.array([row.places for row in encoded]), sizes)
    labels = np.array([row.label for row in encoded])
    answers = len(task.schema.label.values)
    wanted = np.eye(answers)[labels]

    def loss(flat: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        weights = flat.reshape(-1, answers)
        logits = features @ weights
        log_sums = np.logaddexp.reduce(logits, axis=1)
        value = float((log_sums - (logits * wanted).sum(axis=1)).sum())
        slope = features.T @ (np.exp(logits - log_sums[:, None]) - wanted) + penalty * weights
        return value + penalty * float((weights**2).sum()) / 2, slope.ravel()

    start = np.zeros(features.shape[1] * answers)
    weights = minimize(loss, start, jac=True, method="L-BFGS-B").x.reshape(-1, answers)
    best: npt.NDArray[np.int64] = np.argmax(_indicators(task.places, sizes) @ weights, axis=1)
    return best


def _indicators(places: npt.NDArray[np.int64], sizes: Sequence[int]) -> npt.NDArray[np.float64]:
    """One column for each interval or category, and one of ones, [rows, features]."""
    parts = [np.eye(size)[places[:, at]] for at, size in enumerate(sizes)]
    return np.hstack([*parts, np.ones((len(places), 1))])
