"""Aggregates: one noisy average row for each of a few public groups (GDP-TabICL).

Carey et al. 2024, with what its code lacks: every number is clipped to public bounds, sums are
taken from the middle of the bounds, all values of a public domain get noise whether or not anybody
has them, and a group may be empty.

**Charge.** A row is in one group. There it adds 1 to the group's count, to each column of numbers
its distance from the middle of the bounds, between -1 and 1 in halves of their width, and to
each column of categories 1 to one count. These are F + 1 parts (F + 2 where the label is not
grouped by), each with an equal share of epsilon, halved under replace-one, where a row leaves one
set of numbers and joins another. Distances are rounded to a public grid, so all noise is on whole
numbers.

**Samples.** With a rate each unit takes part by a secret coin of its own. What runs on the sample
at ``epsilon_of_sample`` costs ``epsilon = log(1 + rate (e^epsilon_of_sample - 1))``. The rate is
public and fixed beforehand: a number of rows over the table's size would tell that size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

from dpicl_rag import _validate
from dpicl_rag.accounting import Adjacency, zcdp
from dpicl_rag.accounting.prices import Price, PricedPlan
from dpicl_rag.accounting.pure_dp import epsilon_on_sample
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import DiscreteLaplace
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.tabular.charge import Charge, one_each, paid
from dpicl_rag.tabular.schema import Category, Encoded, Number, Row, Schema

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger

GRID = 1 << 16
"""Steps from the middle of a column's bounds to either end."""

GroupKey = tuple[int, ...]
"""A group: for each name that is grouped by, the label's place or the column's bit."""


@dataclass(frozen=True, slots=True)
class Group:
    """Released numbers of one group.

    Attributes:
        key: Which group.
        count: Of its rows, with noise.
        columns: For each column of numbers one sum, in steps of the grid from the middle; for each
            of categories a count for every value.
        label: A count for every answer; empty where the label is grouped by.
    """

    key: GroupKey
    count: int
    columns: tuple[tuple[int, ...], ...]
    label: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Released aggregates. Whatever is computed from them costs nothing more.

    Attributes:
        schema: Of the rows.
        group_by: Names, the label's or of columns.
        groups: Every group, also of no rows.
        epsilon: What the release cost, sampling included.
        rate: Of the sample; 1 where all rows were read.
        epsilon_of_sample: What it would have cost without the sampling. The published code
            states its results by this.
        rho: zCDP rho that a ledger was charged, or would be.
    """

    schema: Schema
    group_by: tuple[str, ...]
    groups: tuple[Group, ...]
    epsilon: float
    rate: float
    epsilon_of_sample: float
    rho: float

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each group: means within the bounds, and the most frequent values."""
        return [self._row(group) for group in self.groups]

    def to_json(self) -> dict[str, Any]:
        """All of it for a file; it is public."""
        return {**asdict(self), "schema": self.schema.to_json()}

    def _row(self, group: Group) -> dict[str, Any]:
        label = self.schema.label
        if group.label:
            answer = _largest(group.label)
        else:
            answer = group.key[self.group_by.index(label.name)]
        row: dict[str, Any] = {}
        for column, numbers in zip(self.schema.columns, group.columns, strict=True):
            if isinstance(column, Number):
                half = (column.high - column.low) / 2
                mean = column.low + half + half * numbers[0] / (GRID * max(group.count, 1))
                row[column.name] = column.clamped(mean)
            else:
                row[column.name] = column.names[_largest(numbers)]
        return {**row, label.name: label.values[answer]}


def read_aggregates(found: Mapping[str, Any], schema: Schema) -> Aggregates:
    """Aggregates from what `Aggregates.to_json` gave."""
    groups = tuple(
        Group(
            tuple(group["key"]),
            group["count"],
            tuple(map(tuple, group["columns"])),
            tuple(group["label"]),
        )
        for group in found["groups"]
    )
    kept = {name: found[name] for name in ("epsilon", "rate", "epsilon_of_sample", "rho")}
    return Aggregates(schema, tuple(found["group_by"]), groups, **kept)


@dataclass(frozen=True, slots=True)
class AggregatesPlan(PricedPlan):
    """The cost of aggregates and its parts. Public, before any row is read.

    Attributes:
        schema: Of the rows.
        group_by: Names, the label's or of columns.
        epsilon: The release is epsilon-DP.
        rate: Of the sample.
        adjacency: What makes two tables neighbours.

    Raises:
        ConfigurationError: A setting is outside its range or does not fit another.
    """

    schema: Schema
    group_by: tuple[str, ...]
    epsilon: float
    rate: float = 1.0
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        if isinstance(self.rate, bool) or not isinstance(self.rate, int | float):
            raise ConfigurationError(
                "rate is a public number fixed beforehand, above 0 and at most 1; computed from "
                "the rows it would tell how many there are"
            )
        _validate.rate("rate", self.rate)
        if self.rate < 1 and self.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            raise ConfigurationError(
                "a sample by coins amplifies under add-or-remove adjacency only; leave rate out"
            )
        if len(set(self.group_by)) < len(self.group_by):
            raise ConfigurationError("a name to group by stands twice")
        for name in self.group_by:
            if name != self.schema.label.name:
                self.schema.column(name)

    @property
    def keys(self) -> list[GroupKey]:
        """Every group."""
        answers = len(self.schema.label.values)
        sizes = [answers if name == self.schema.label.name else 2 for name in self.group_by]
        return list(product(*map(range, sizes)))

    @property
    def epsilon_of_sample(self) -> float:
        """The cost of the release without the sampling; see the module."""
        return epsilon_on_sample(self.epsilon, self.rate)

    @property
    def charge(self) -> Charge:
        """The charge of what runs on the sample."""
        parts = 1 + len(self.schema.columns) + (self.schema.label.name not in self.group_by)
        zero = _Sums.zero(self.schema)
        labels = 0 if self.schema.label.name in self.group_by else len(zero.label)
        counts = len(self.keys) * (1 + sum(map(len, zero.columns)) + labels)
        return Charge(self.epsilon_of_sample, 0.0, parts, counts, self.adjacency)

    @property
    def delta(self) -> float:
        """Zero: the noise is purely private."""
        return 0.0

    @property
    def rho(self) -> float:
        """The charge in a ledger, zCDP rho. Parts are added up where all rows are read."""
        return self.charge.rho if self.rate == 1 else zcdp(self.epsilon)

    @property
    def parts(self) -> tuple[Price, ...]:
        """The numbers of all groups, in one release."""
        return tuple(replace(numbers, rho=self.rho) for numbers in self.charge.parts)

    @property
    def sampled(self) -> dict[str, float]:
        """The cost of what runs on a sample, where there is one."""
        return {"epsilon_of_sample": self.epsilon_of_sample} if self.rate < 1 else {}

    def numbers(self) -> dict[str, Any]:
        """The noise on every number, and how many rows there are."""
        return {**self.sampled, "rows": len(self.keys), "noise": repr(self.charge.noise)}

    def key_of(self, encoded: Encoded) -> GroupKey:
        """The group of a row with a label. Private."""
        assert encoded.label is not None
        columns = zip(self.schema.columns, encoded.places, strict=True)
        bits = {column.name: column.bit(place) for column, place in columns}
        bits[self.schema.label.name] = encoded.label
        return tuple(bits[name] for name in self.group_by)


def release_aggregates(
    rows: Iterable[Row],
    schema: Schema,
    epsilon: float,
    group_by: Sequence[str] | None = None,
    *,
    rate: float = 1.0,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    units: Sequence[str] | None = None,
    ledger: Ledger | None = None,
    corpus: str = "default",
    randomness: Randomness | None = None,
) -> Aggregates:
    """Release one average row for each group, all of them under one budget.

    Args:
        rows: Private. A row whose label is not listed is left out.
        schema: Public.
        epsilon: All of the release is epsilon-DP for every unit, sampling included.
        group_by: Names, each of which doubles the groups (the label: as many as it has answers).
            None groups by the label; nothing at all makes one row.
        rate: Public probability with which a unit takes part.
        adjacency: What makes two sets of rows neighbours.
        units: Whose each row is. A unit's first row counts; None makes each row a unit.
        ledger: Keeps the budget of ``corpus``.
        corpus: Whose budget.
        randomness: Where coins and noise come from.

    Raises:
        BudgetExceededError: The ledger has not as much left.
        ConfigurationError: A setting is outside its range or does not fit another.
    """
    names = (schema.label.name,) if group_by is None else tuple(group_by)
    plan = AggregatesPlan(schema, names, epsilon, rate, adjacency)
    coins = randomness or Randomness()

    def draw() -> tuple[Group, ...]:
        return measured(_sample(one_each(rows, units), rate, coins), plan, coins)

    groups = paid(ledger, corpus, plan.rho, draw)
    return Aggregates(schema, names, groups, epsilon, rate, plan.epsilon_of_sample, plan.rho)


def measured(
    rows: Iterable[Row], plan: AggregatesPlan, randomness: Randomness
) -> tuple[Group, ...]:
    """The numbers of every group, with noise on each.

    Args:
        rows: Those that take part. Private.
        plan: What it costs.
        randomness: Of the noise.
    """
    schema = plan.schema
    exact = {key: _Sums.zero(schema) for key in plan.keys}
    for row in rows:
        encoded = schema.encode(row)
        if encoded.label is not None:
            exact[plan.key_of(encoded)].add(row, encoded, schema)
    share = plan.charge.share
    of_count, of_sum = DiscreteLaplace(share), DiscreteLaplace(share / GRID)
    with_label = schema.label.name not in plan.group_by

    def noisy(numbers: Sequence[int], noise: DiscreteLaplace) -> tuple[int, ...]:
        return tuple(number + noise.draw(randomness) for number in numbers)

    return tuple(
        Group(
            key,
            noisy([sums.count], of_count)[0],
            tuple(
                noisy(numbers, of_sum if isinstance(column, Number) else of_count)
                for column, numbers in zip(schema.columns, sums.columns, strict=True)
            ),
            noisy(sums.label, of_count) if with_label else (),
        )
        for key, sums in exact.items()
    )


def offset(column: Number, value: object) -> int:
    """Distance of a value from the middle of its bounds, from -GRID to GRID. Exact.

    Args:
        column: Of the value.
        value: Private; clipped to the bounds.
    """
    low, high = Fraction(column.low), Fraction(column.high)
    return round((2 * Fraction(column.clamped(value)) - low - high) / (high - low) * GRID)


@dataclass(slots=True)
class _Sums:
    """Exact numbers of one group. Private."""

    count: int
    columns: list[list[int]]
    label: list[int]

    @staticmethod
    def zero(schema: Schema) -> _Sums:
        columns = [
            [0] * (column.size if isinstance(column, Category) else 1) for column in schema.columns
        ]
        return _Sums(0, columns, [0] * len(schema.label.values))

    def add(self, row: Row, encoded: Encoded, schema: Schema) -> None:
        self.count += 1
        parts = zip(schema.columns, self.columns, encoded.places, strict=True)
        for column, numbers, place in parts:
            if isinstance(column, Number):
                numbers[0] += offset(column, row.get(column.name))
            else:
                numbers[place] += 1
        if encoded.label is not None:
            self.label[encoded.label] += 1


def _sample(rows: Sequence[Row], rate: float, randomness: Randomness) -> list[Row]:
    """Rows that take part, each by a coin of exactly the public rate."""
    exact = Fraction(rate)
    return [row for row in rows if randomness.below(exact.denominator) < exact.numerator]


def _largest(numbers: Sequence[int]) -> int:
    return max(range(len(numbers)), key=numbers.__getitem__)
