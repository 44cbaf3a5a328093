"""Local privacy: each person changes the own row by chance, and only that leaves the machine.

Nobody needs to be trusted: the aggregator sees reports and never a row. Three ways:

*One attribute*: a person draws one column, by a public coin, and sends its value together with
the label by generalised randomised response, with the whole epsilon. The aggregator estimates the
same tables as in `noisy_tables`.

*Bits*, LDP-TabICL (Carey et al. 2024): every column becomes one bit, by public cut points, and
each of the d bits is kept with probability ``e^(epsilon/d) / (1 + e^(epsilon/d))``. The aggregator
estimates the joint distribution of the bits. That multiplies noise by ``(2 p - 1)^-d``; it is here
to be compared with.

*One-hot*: the same with a bit for each value of a category, as the paper counts them
(`RowBits`). Two rows differ in at most two bits of a category, and each bit has its share of
``epsilon`` by that, not by how many bits there are.

**Charge**: the chances of any report under any two rows differ by a factor of ``e^epsilon`` at
most, whatever other people do. A second report of the same person costs epsilon again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, TypeAdapter, ValidationError

from dpicl_rag import _validate
from dpicl_rag.accounting import zcdp
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import RandomisedResponse
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.tabular.noisy_tables import NoisyTables
from dpicl_rag.tabular.schema import Category, Column, Encoded, Row, Schema

LocalMethod = Literal["one-attribute", "bits", "one-hot"]
METHODS: tuple[LocalMethod, ...] = get_args(LocalMethod)


@dataclass(frozen=True, slots=True)
class Report:
    """All that leaves a person's machine.

    Attributes:
        method: How it was made.
        epsilon: Of this report.
        schema: Digest of the schema.
        column: The column that was drawn, of ``one-attribute``; empty otherwise.
        value: Its value after the change, by name; empty otherwise.
        label: The label after the change; empty otherwise.
        bits: Of the columns and then the label, after the change; empty for ``one-attribute``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    method: LocalMethod
    epsilon: float
    schema: str
    column: str = ""
    value: str = ""
    label: str = ""
    bits: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The message that is sent."""
        return {name: value for name, value in asdict(self).items() if value not in ("", ())}

    @staticmethod
    def read(found: object) -> Report:
        """A report that was sent.

        Raises:
            ConfigurationError: It is none.
        """
        try:
            return TypeAdapter(Report).validate_python(found)
        except ValidationError:
            raise ConfigurationError("this is no report of `dpicl-rag tabular local`") from None


@dataclass(frozen=True, slots=True)
class Bits:
    """The estimated joint distribution of the bits. All of it follows from reports.

    Attributes:
        schema: Of the rows.
        shares: Of each combination of bits, [2, ..., 2], the label last; 0 or more, of sum 1.
        people: How many reported.
        one_hot: Whether bits are as the paper counts them.
    """

    schema: Schema
    shares: npt.NDArray[np.float64]
    people: int
    one_hot: bool = False

    def rows(self, number: int, randomness: Randomness | None = None) -> list[dict[str, Any]]:
        """Rows drawn from the distribution, as published: from cells rounded up to whole people."""
        coins = randomness or Randomness()
        cells = np.ceil(self.shares * self.people - 1e-9).ravel()
        until = np.cumsum(cells) if cells.any() else np.arange(1.0, len(cells) + 1)
        layout = RowBits(self.schema, self.one_hot)
        made: list[dict[str, Any]] = []
        for _ in range(number):
            cell = int(np.searchsorted(until, coins.uniform() * until[-1], side="right"))
            bits = [int(bit) for bit in np.unravel_index(cell, self.shares.shape)]
            made.append(row_of_bits(bits, layout))
        return made


def row_of_bits(bits: Sequence[int], layout: RowBits) -> dict[str, Any]:
    """The row that bits stand for, with its label."""
    label = layout.schema.label
    answer = {label.name: label.values[bits[-1]]}
    return {**layout.schema.decode(layout.places(bits[:-1])), **answer}


def local_report(
    row: Row,
    schema: Schema,
    epsilon: float,
    *,
    method: LocalMethod = "one-attribute",
    randomness: Randomness | None = None,
) -> Report:
    """The report that may leave the machine of the person whose row it is.

    Args:
        row: Private. No row raises: where it has no listed label, one is drawn in its place.
        schema: Public.
        epsilon: Of the report.
        method: See the module.
        randomness: Of the person.

    Raises:
        ConfigurationError: A setting is outside its range.
    """
    exact = Fraction(_validate.positive("epsilon", epsilon))
    coins = randomness or Randomness()
    encoded = schema.encode(row)
    answers = len(schema.label.values)
    label = coins.below(answers) if encoded.label is None else encoded.label
    if _known(method) != "one-attribute":
        layout = RowBits(schema, method == "one-hot")
        response = RandomisedResponse(2, layout.share(exact))
        sent = tuple(response.draw(bit, coins) for bit in layout.of(encoded, label))
        return Report(method, float(epsilon), schema.digest, bits=sent)
    at = coins.below(len(schema.columns))
    column = schema.columns[at]
    response = RandomisedResponse(column.size * answers, exact)
    place, answer = divmod(response.draw(encoded.places[at] * answers + label, coins), answers)
    value, said = column.names[place], schema.label.values[answer]
    return Report(method, float(epsilon), schema.digest, column.name, value, said)


def tables_from_reports(reports: Iterable[Report], schema: Schema, epsilon: float) -> NoisyTables:
    """Tables estimated from reports of ``one-attribute``; unbiased, so some counts are below 0.

    Raises:
        ConfigurationError: A report is of another kind; says which one.
    """
    answers = schema.label.values
    counted = [[0] * (column.size * len(answers)) for column in schema.columns]
    columns = {column.name: at for at, column in enumerate(schema.columns)}
    pairs = [
        {pair: cell for cell, pair in enumerate(product(column.names, answers))}
        for column in schema.columns
    ]
    for number, one in enumerate(reports, start=1):
        _check(one, number, schema, epsilon, "one-attribute")
        at = columns.get(one.column)
        cell = None if at is None else pairs[at].get((one.value, one.label))
        if at is None or cell is None:
            raise ConfigurationError(f"report {number}: its column or value is not in the schema")
        counted[at][cell] += 1
    tables = []
    for numbers in counted:
        response = RandomisedResponse(len(numbers), Fraction(epsilon))
        estimates = response.estimate(numbers)
        tables.append(tuple(tuple(estimates[at :: len(answers)]) for at in range(len(answers))))
    return NoisyTables(schema, tuple(tables), float(epsilon), 0.0, zcdp(epsilon))


def bits_from_reports(
    reports: Iterable[Report], schema: Schema, epsilon: float, method: LocalMethod = "bits"
) -> Bits:
    """The joint distribution estimated from reports of bits, as LDP-TabICL does it.

    The shares of the reports are multiplied by the Kronecker power of the inverse of one bit's
    2 x 2 matrix; what is below 0 becomes 0, and the rest is rescaled.

    Raises:
        ConfigurationError: A report is of another kind; says which one.
    """
    layout = RowBits(schema, _known(method) == "one-hot")
    bits = layout.number
    counted = np.zeros((2,) * bits)
    people = 0
    for people, one in enumerate(reports, start=1):
        _check(one, people, schema, epsilon, method)
        if len(one.bits) != bits or not set(one.bits) <= {0, 1}:
            raise ConfigurationError(f"report {people}: give {bits} bits")
        counted[one.bits] += 1
    response = RandomisedResponse(2, layout.share(epsilon))
    kept, other = response.kept, response.other
    inverse = np.array([[kept, -other], [-other, kept]]) / (kept - other)
    for axis in range(bits):
        counted = np.moveaxis(np.tensordot(inverse, counted, axes=(1, axis)), 0, axis)
    clipped = np.maximum(counted, 0)
    total = clipped.sum()
    shares = clipped / total if total else np.full_like(clipped, 0.5**bits)
    return Bits(schema, shares, people, layout.one_hot)


def _known(method: str) -> str:
    if method not in METHODS:
        raise ConfigurationError(f"method must be one of {', '.join(METHODS)}")
    return method


def _check(one: Report, number: int, schema: Schema, epsilon: float, method: LocalMethod) -> None:
    wanted: Sequence[tuple[str, object, object]] = (
        ("method", one.method, method),
        ("schema", one.schema, schema.digest),
        ("epsilon", one.epsilon, float(epsilon)),
    )
    for what, found, asked in wanted:
        if found != asked:
            raise ConfigurationError(f"report {number} is of another {what}; {asked} is wanted")


_MOST = 20  # of a joint distribution: 2^20 cells


@dataclass(frozen=True, slots=True)
class RowBits:
    """Bits of the columns and then of the label.

    *One a column*: a cut in two by the schema. Two rows differ in at most all d bits.

    *One-hot*, as Carey et al. 2024 count: a number is one bit; so is a category that is cut in two
    by ``ones``, or has at most two values; any other category is one bit for each value of its
    list, none of them set for ``other``. Two rows differ in at most two bits of such a category,
    however many it has. The paper gives every one of the d bits ``epsilon / d``, which is more
    noise than its epsilon needs: what its reports really cost is ``flips / d`` of it.

    Attributes:
        schema: Of the rows; its label has two answers.
        one_hot: Whether as the paper counts them; else one for each column.

    Raises:
        ConfigurationError: The label has more answers, or there are too many bits.
    """

    schema: Schema
    one_hot: bool = False

    def __post_init__(self) -> None:
        if len(self.schema.label.values) == 2 and self.number <= _MOST:
            return
        many = f"{_MOST} bits with the label's" if self.one_hot else f"{_MOST - 1} columns"
        raise ConfigurationError(
            f"bits are for labels of two answers and at most {many}; use one-attribute"
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of each column."""
        return tuple(map(self._width, self.schema.columns))

    @property
    def number(self) -> int:
        """d: all bits of a row, the label's included."""
        return sum(self.widths) + 1

    @property
    def flips(self) -> int:
        """In how many bits two rows differ at most; it is reached."""
        return sum(min(width, 2) for width in self.widths) + 1

    def share(self, epsilon: float | Fraction) -> Fraction:
        """Epsilon of one bit, such that a report costs ``epsilon`` and no less."""
        return Fraction(epsilon) / self.flips

    def of(self, encoded: Encoded, label: int) -> tuple[int, ...]:
        """The bits of a row. Private.

        Args:
            encoded: The row.
            label: 0 or 1, in place of the row's own.
        """
        found: list[int] = []
        columns = zip(self.schema.columns, self.widths, encoded.places, strict=True)
        for column, width, place in columns:
            if width == 1:
                found.append(column.bit(place))
            else:
                found += [int(place == at) for at in range(width)]
        return (*found, label)

    def places(self, bits: Sequence[int]) -> tuple[int, ...]:
        """A place of each column that bits stand for: the first of several values.

        Args:
            bits: As from `of`, without the label's; any combination, for chance changes them.
        """
        found, at = [], 0
        for column, width in zip(self.schema.columns, self.widths, strict=True):
            own = tuple(bits[at : at + width])
            at += width
            if width == 1:
                found.append(column.of_bit(own[0]))
            else:
                found.append(own.index(1) if 1 in own else column.place(None))
        return tuple(found)

    def _width(self, column: Column) -> int:
        if not self.one_hot or not isinstance(column, Category) or column.ones:
            return 1
        return len(column.values) if len(column.values) > 2 else 1
