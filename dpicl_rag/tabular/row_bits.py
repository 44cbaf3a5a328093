"""Bits of a row: one for each column, or one for each value as LDP-TabICL counts them.

*One a column*: a cut in two by the schema. Two rows differ in at most all d bits.

*One-hot*, as Carey et al. 2024 count: a number is one bit; so is a category that is cut in two by
``ones``, or has at most two values; any other category is one bit for each value of its list, none
of them set for ``other``. Two rows differ in at most two bits of such a category, however many it
has. The paper gives every one of the d bits ``epsilon / d``, which is more noise than its epsilon
needs: what its reports really cost is ``flips / d`` of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.tabular.schema import Category, Column, Encoded, Schema

_MOST = 20  # of a joint distribution: 2^20 cells


@dataclass(frozen=True, slots=True)
class RowBits:
    """Bits of the columns and then of the label.

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

    def published_share(self, epsilon: float | Fraction) -> Fraction:
        """Epsilon of one bit in the paper. For comparison."""
        return Fraction(epsilon) / self.number

    def true_epsilon(self, epsilon: float | Fraction) -> Fraction:
        """What a report really costs with the paper's share of ``epsilon`` for each bit."""
        return self.flips * self.published_share(epsilon)

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
