"""Naive Bayes from counts: the honest yardstick, without any language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpicl_rag.tabular.schema import Row, Schema

Counts = Sequence[npt.NDArray[np.float64]]
"""For each column of a schema, counts [labels, places]; with noise, they may be below 0."""


@dataclass(frozen=True, slots=True)
class NaiveBayes:
    """Log-probabilities of labels, and of places given a label.

    Attributes:
        schema: Of the rows.
        labels: [labels].
        places: For each column, [labels, places].
    """

    schema: Schema
    labels: npt.NDArray[np.float64]
    places: tuple[npt.NDArray[np.float64], ...]

    @staticmethod
    def of(schema: Schema, counts: Counts) -> NaiveBayes:
        """From counts, exact ones or released ones.

        Counts below 0 become 0, and 1 is added to every count (Laplace smoothing).
        """
        places = [np.log(probabilities(table)) for table in counts]
        return NaiveBayes(schema, np.log(label_shares(counts)), tuple(places))

    def best(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The likeliest label of every row.

        Args:
            places: Of each row and column, [rows, columns].

        Returns:
            Places of labels, [rows].
        """
        given = [table[:, at] for table, at in zip(self.places, places.T, strict=True)]
        scores = self.labels[:, None] + np.sum(given, axis=0)
        best: npt.NDArray[np.int64] = np.argmax(scores, axis=0)
        return best

    def predict(self, row: Row) -> str:
        """The likeliest label of one row."""
        places = np.array([self.schema.encode(row).places])
        return self.schema.label.values[int(self.best(places)[0])]


def probabilities(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Shares of the places given each label, [labels, places]; all above 0."""
    smoothed = np.maximum(counts, 0) + 1
    shares: npt.NDArray[np.float64] = smoothed / smoothed.sum(axis=1, keepdims=True)
    return shares


def label_shares(counts: Counts) -> npt.NDArray[np.float64]:
    """Shares of the labels, [labels]; all above 0.

    Every table holds the number of rows with a label, as the sum over its places. The sums are
    averaged by the inverse of their noise, which grows with the number of places.
    """
    weights = np.array([1 / table.shape[1] for table in counts])
    sums = np.array([table.sum(axis=1) for table in counts])
    mean = weights @ sums / weights.sum()
    smoothed = np.maximum(mean, 0) + 1
    shares: npt.NDArray[np.float64] = smoothed / smoothed.sum()
    return shares
