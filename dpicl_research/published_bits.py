"""The bits that LDP-TabICL randomises, counted as the paper does, beside ours.

Carey et al. 2024. The paper leaves out some columns, merges some values, makes a number one bit and
a category one bit, or one for each value; the label is one more. It gives every one of the d bits
``epsilon / d``. Two rows differ in no more than two of a category's bits, so what its reports
really cost is less where there are such categories (`RowBits`). That holds for public cuts: the
paper cuts numbers at the mean of the data, which is not private whatever the bits are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpicl_rag.tabular.local_privacy import RowBits
from dpicl_rag.tabular.schema import PACKAGED, Category, Column, Schema
from dpicl_research.published_groups import Cut, cut_in_two
from dpicl_research.published_sampling import EPSILONS
from dpicl_research.report import Table

_LEFT_OUT: Mapping[str, Sequence[str]] = {
    "adult": ("occupation", "relationship", "capital_loss", "native_country"),
    "bank": ("job", "marital", "education", "default", "loan", "contact", "month"),
    "car": ("doors",),
}

_CUT: Mapping[str, Mapping[str, Cut]] = {
    "adult": {
        "workclass": ("Private",),
        "marital_status": ("Married-civ-spouse", "Married-spouse-absent", "Married-AF-spouse"),
        "race": ("White",),
        "sex": ("Male",),
    },
    "bank": {"housing": ("yes",), "poutcome": ("success",)},
    "car": {"persons": ("4", "more"), "lug_boot": ("med", "big")},
    "heart": {
        "ChestPainType": ("ATA", "TA"),
        "RestingECG": ("LVH", "ST", "other"),
        "ST_Slope": ("Up", "Down", "other"),
    },
}

_THREE = {"low": "low", "med": "med", "high": "high", "vhigh": "high"}
_MERGED: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "adult": {
        "education": {
            **dict.fromkeys(("Preschool", "9th", "10th", "11th"), "less than high school"),
            **dict.fromkeys(("HS-grad", "Some-college"), "high school"),
            **dict.fromkeys(("Assoc-voc", "Assoc-acdm"), "associate"),
            **dict.fromkeys(("Bachelors", "Masters", "Doctorate"), "college"),
            "Prof-school": "professional school",
        }
    },
    "car": {"buying": _THREE, "maint": _THREE, "safety": _THREE},
}


@dataclass(frozen=True, slots=True)
class BitCount:
    """Bits of one data set.

    Attributes:
        name: Of the data set.
        published: As the paper counts them, in its columns.
        ours: One for each column of the packaged schema.
    """

    name: str
    published: RowBits
    ours: RowBits

    @property
    def widest(self) -> int:
        """Bits of the column that has most of them, in the paper's count."""
        return max(self.published.widths)


def published_schema(name: str) -> Schema:
    """A packaged schema with the columns and values of the paper's local method."""
    schema = Schema.read(name)
    kept = [one for one in schema.columns if one.name not in _LEFT_OUT.get(name, ())]
    cuts, merged = _CUT.get(name, {}), _MERGED.get(name, {})

    def of(column: Column) -> Column:
        if column.name in cuts:
            return cut_in_two(column, cuts[column.name])
        if column.name in merged:
            aliases = merged[column.name]
            return Category(column.name, tuple(dict.fromkeys(aliases.values())), aliases)
        return column

    return replace(schema, columns=tuple(map(of, kept)), text="", group_by=())


def bit_counts() -> list[BitCount]:
    """Of every data set of the paper."""
    return [
        BitCount(name, RowBits(published_schema(name), one_hot=True), RowBits(Schema.read(name)))
        for name in PACKAGED
    ]


def bits_table(epsilon: float = 10.0) -> Table:
    """Shares of epsilon for a bit and a column, and what the paper's reports really cost.

    Args:
        epsilon: What the shares are of.
    """
    columns = (
        *("data set", "bits, as published", "of them differ", "published share of a bit"),
        *("of the widest column", "sound share of a bit", "our bits", "our share of a bit"),
        *(f"published {one} really costs" for one in EPSILONS),
    )
    rows = []
    for count in bit_counts():
        bits, ours = count.published, count.ours
        published = published_share(bits, epsilon)
        shares = (published, count.widest * published, bits.share(epsilon))
        rows.append(
            (
                *(count.name, str(bits.number), str(bits.flips), _shown(shares[0])),
                *(_shown(shares[1]), _shown(shares[2])),
                *(str(ours.number), _shown(ours.share(epsilon))),
                *(_shown(true_epsilon(bits, one)) for one in EPSILONS),
            )
        )
    return Table(f"Bits of a row, epsilon {epsilon:g}", columns, tuple(rows))


def published_share(bits: RowBits, epsilon: float | Fraction) -> Fraction:
    """Epsilon of one bit in the paper."""
    return Fraction(epsilon) / bits.number


def true_epsilon(bits: RowBits, epsilon: float | Fraction) -> Fraction:
    """The cost of a report with the paper's share of ``epsilon`` for each bit."""
    return bits.flips * published_share(bits, epsilon)


def _shown(number: Fraction) -> str:
    return f"{float(number):.3g}"
