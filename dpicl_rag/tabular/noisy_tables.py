"""Noisy tables: for each column, counts of its values with each label; naive Bayes from them.

All tables of one release share one budget. Rows that look like the private ones are drawn from
them, and demonstrations for prompts from these; naive Bayes on the tables says how much of what
can be learned has survived. All of that is post-processing, as often as one likes.

**Charge.** A row adds 1 to one count of each of the F tables, whatever it says, and F and all
domains are public. So it moves F numbers by 1 under add-or-remove, and 2 F under replace-one: a
changed cell takes 1 from one count of its table and adds it to another, and a changed label does
so in all tables. Each count gets discrete Laplace noise of ``epsilon / F`` (or ``/ 2 F``), or with
a delta discrete Gaussian noise of ``sigma^2 = F / (2 rho)``. Counts of zero get it too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpicl_rag.accounting import Adjacency
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.tabular.charge import Charge, one_each, paid
from dpicl_rag.tabular.schema import Encoded, Row, Schema

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger


@dataclass(frozen=True, slots=True)
class NoisyTables:
    """Released tables. Whatever is computed from them costs nothing more.

    Attributes:
        schema: Of the rows.
        counts: For each column, counts with noise by label and place.
        epsilon: What the release cost; None of counts without noise.
        delta: See ``epsilon``.
        rho: zCDP rho that a ledger was charged, or would be.
    """

    schema: Schema
    counts: tuple[tuple[tuple[float, ...], ...], ...]
    epsilon: float | None
    delta: float
    rho: float | None

    @property
    def arrays(self) -> Counts:
        """The counts, [labels, places] for each column."""
        return [np.array(table, dtype=np.float64) for table in self.counts]

    def naive_bayes(self) -> NaiveBayes:
        """The classifier that follows from the tables."""
        return NaiveBayes.of(self.schema, self.arrays)

    def rows(self, number: int, randomness: Randomness | None = None) -> list[dict[str, Any]]:
        """Rows drawn from the tables: a label first, then each column given the label."""
        coins, counts = randomness or Randomness(), self.arrays
        labels, tables = label_shares(counts), [probabilities(table) for table in counts]
        made: list[dict[str, Any]] = []
        for _ in range(number):
            label = _drawn(labels, coins)
            places = [_drawn(table[label], coins) for table in tables]
            answer = {self.schema.label.name: self.schema.label.values[label]}
            made.append({**self.schema.decode(places), **answer})
        return made

    def to_json(self) -> dict[str, Any]:
        """All of it for a file; it is public."""
        return {**asdict(self), "schema": self.schema.to_json()}


def release_tables(
    rows: Iterable[Row],
    schema: Schema,
    epsilon: float,
    *,
    delta: float = 0.0,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    units: Sequence[str] | None = None,
    ledger: Ledger | None = None,
    corpus: str = "default",
    randomness: Randomness | None = None,
) -> NoisyTables:
    """Release noisy tables of private rows, all of them under one budget.

    Args:
        rows: Private. A row whose label is not listed is left out.
        schema: Public.
        epsilon: All tables together are (epsilon, delta)-DP for every unit.
        delta: 0 for Laplace noise; above 0 Gaussian, which is less with many columns.
        adjacency: What makes two sets of rows neighbours.
        units: Whose each row is. A unit's first row counts; None makes each row a unit.
        ledger: Keeps the budget of ``corpus``.
        corpus: Whose budget.
        randomness: Where noise comes from.

    Raises:
        BudgetExceededError: The ledger has not as much left.
        ConfigurationError: A setting is outside its range.
    """
    charge = tables_charge(schema, epsilon, delta, adjacency)
    coins = randomness or Randomness()

    def draw() -> list[list[list[int]]]:
        counted = exact_counts(map(schema.encode, one_each(rows, units)), schema)
        noise = charge.noise
        return [
            [[number + noise.draw(coins) for number in row] for row in table] for table in counted
        ]

    released = paid(ledger, corpus, charge.rho, draw)
    return NoisyTables(schema, frozen(released), epsilon, delta, charge.rho)


def tables_charge(
    schema: Schema,
    epsilon: float,
    delta: float = 0.0,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
) -> Charge:
    """The charge of `release_tables`. Public."""
    counts = sum(column.size for column in schema.columns) * len(schema.label.values)
    return Charge(epsilon, delta, len(schema.columns), counts, adjacency)


def read_tables(found: Mapping[str, Any], schema: Schema) -> NoisyTables:
    """Tables from what `NoisyTables.to_json` gave.

    Raises:
        ConfigurationError: They are not of this schema.
    """
    wanted = [(len(schema.label.values), column.size) for column in schema.columns]
    counts = frozen(found["counts"])
    shapes = [np.array(table).shape for table in counts]
    same = json.loads(json.dumps(schema.to_json())) == found["schema"]
    if shapes != wanted or not same:
        raise ConfigurationError("the tables are of another schema")
    return NoisyTables(schema, counts, found["epsilon"], found["delta"], found["rho"])


def exact_counts(encoded: Iterable[Encoded], schema: Schema) -> list[list[list[int]]]:
    """Numbers of rows with each label and place, for each column. Private."""
    counted = [[[0] * column.size for _ in schema.label.values] for column in schema.columns]
    for row in encoded:
        if row.label is not None:
            for table, place in zip(counted, row.places, strict=True):
                table[row.label][place] += 1
    return counted


def _drawn(shares: Any, randomness: Randomness) -> int:
    at = int(np.searchsorted(np.cumsum(shares), randomness.uniform(), side="right"))
    return min(at, len(shares) - 1)


def frozen(counts: Any) -> tuple[tuple[tuple[float, ...], ...], ...]:
    """Counts as `NoisyTables` keeps them."""
    return tuple(tuple(tuple(row) for row in table) for table in counts)


Counts = Sequence[npt.NDArray[np.float64]]
"""For each column of a schema, counts [labels, places]; with noise, they may be below 0."""


@dataclass(frozen=True, slots=True)
class NaiveBayes:
    """Log-probabilities of labels, and of places given a label: the yardstick without a model.

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
