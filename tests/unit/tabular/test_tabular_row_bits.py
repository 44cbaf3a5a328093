"""Bits of rows: how many there are, how many two rows differ in, and what they stand for."""

from dataclasses import replace
from itertools import product

import pytest

from dpicl_rag.accounting import Adjacency
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.tabular.aggregates import release_aggregates
from dpicl_rag.tabular.local_privacy import RowBits
from dpicl_rag.tabular.schema import Category, Label, Number, Schema
from dpicl_research.published_bits import published_share, true_epsilon
from tests.support.private_rows import SCHEMA as PRIVATE
from tests.support.private_rows import dearest

SCHEMA = Schema(
    columns=(
        Number("age", 0, 100, (30, 60)),
        Category("job", ("clerk", "smith")),
        Category("price", ("low", "med", "high"), {"vhigh": "high"}),
        Category("size", ("a", "b", "c", "d"), ones=("c", "d", "other")),
    ),
    label=Label("rich", ("No", "Yes")),
)
EVERY_ROW = [
    {"age": age, "job": job, "price": price, "size": size}
    for age, job, price, size in product(
        (10, 90), ("clerk", "?"), ("low", "vhigh", "?"), ("a", "d")
    )
]


def bits_of(row, layout, label=1):
    return layout.of(layout.schema.encode(row), label)


@pytest.mark.parametrize(("one_hot", "number", "flips"), [(False, 5, 5), (True, 7, 6)])
def test_two_rows_differ_in_as_many_bits_and_no_fewer(one_hot, number, flips):
    layout = RowBits(SCHEMA, one_hot)
    assert (layout.number, layout.flips) == (number, flips)
    every = [bits_of(row, layout, label) for row in EVERY_ROW for label in (0, 1)]
    assert {len(bits) for bits in every} == {number}
    differing = [
        sum(x != y for x, y in zip(one, other, strict=True)) for one, other in product(every, every)
    ]
    assert max(differing) == flips


def test_a_bit_covers_any_of_the_values():
    cheap = Category("buying", ("low", "med", "high", "vhigh"), ones=("high", "vhigh"))
    assert [cheap.bit(cheap.place(value)) for value in (*cheap.values, "?")] == [0, 0, 1, 1, 0]
    assert [cheap.example(cheap.of_bit(bit)) for bit in (0, 1)] == ["low", "high"]
    unlike = Category("pay", ("a", "b", "c"), ones=("b", "other"))
    assert [unlike.bit(place) for place in range(4)] == [0, 1, 0, 1]
    first = Category("first", ("a", "b", "c"), ones=("a",))
    assert [first.example(first.of_bit(bit)) for bit in (0, 1)] == ["b", "a"]


@pytest.mark.parametrize(
    "ones", [("d",), ("a", "a"), ("a", "b", "c", "other"), "a"], ids=["absent", "twice", "all", "s"]
)
def test_ones_that_cut_nothing_are_refused(ones):
    with pytest.raises(ConfigurationError, match=r"'pay': ones are some of its values"):
        Category("pay", ("a", "b", "c"), ones=ones)


def test_what_was_kept_before_there_were_ones_is_still_read(tmp_path):
    assert Schema.read("car").digest == "885b23e02324b4eb"
    assert "ones" not in str(Schema.read("car").to_json())
    text = 'values = ["low", "med", "high"]\nones = ["med", "high"]'
    (tmp_path / "own.toml").write_text(
        f'[label]\nname = "y"\nvalues = ["No", "Yes"]\n[[column]]\nkind = "category"\n'
        f'name = "x"\n{text}\n'
    )
    read = Schema.read(tmp_path / "own.toml")
    assert read.to_json()["columns"][0]["ones"] == ("med", "high")
    plain = Schema((Category("x", ("low", "med", "high")),), read.label)
    assert plain.digest != read.digest


def test_bits_stand_for_a_row():
    layout = RowBits(SCHEMA, one_hot=True)
    for row in EVERY_ROW:
        encoded = SCHEMA.encode(row)
        again = SCHEMA.encode(SCHEMA.decode(layout.places(bits_of(row, layout)[:-1])))
        assert layout.of(again, 1) == layout.of(encoded, 1)
    several, none = (0, 0, 1, 1, 0, 0), (0, 0, 0, 0, 0, 0)
    assert SCHEMA.decode(layout.places(several))["price"] == "low"
    assert SCHEMA.decode(layout.places(none))["price"] == "other"


def test_shares_add_up_to_what_is_promised():
    layout = RowBits(SCHEMA, one_hot=True)
    assert layout.share(3.0) * layout.flips == 3
    assert published_share(layout, 7.0) == 1
    assert true_epsilon(layout, 7.0) == 6
    assert true_epsilon(RowBits(SCHEMA), 7.0) == 7


def test_too_many_bits_are_refused():
    letters = tuple("abcdefghijklmnopqrst")
    wide = Schema((Category("x", letters),), SCHEMA.label)
    assert RowBits(wide).number == 2
    with pytest.raises(ConfigurationError, match="at most 20 bits"):
        RowBits(wide, one_hot=True)


def grouped_release(ones_of):
    """Aggregates grouped by jobs that ``ones_of`` chooses; it is shown the private rows."""

    def run(rows):
        job = replace(PRIVATE.columns[1], ones=ones_of(rows))
        schema = replace(PRIVATE, columns=(PRIVATE.columns[0], job, PRIVATE.columns[2]))
        groups = release_aggregates(rows, schema, 3.0, ("rich", "job")).groups
        return [
            number
            for group in groups
            for part in ((group.count,), *group.columns, group.label)
            for number in part
        ]

    return run


def test_groups_of_any_values_cost_the_same():
    found = dearest(grouped_release(lambda _: ("clerk", "other")), Adjacency.ADD_OR_REMOVE_ONE)
    assert found == pytest.approx(3.0, rel=1e-12)


def test_values_that_the_rows_group_are_found():
    """Which values are one group follows from the rows: an arrival moves other people's rows."""

    def seen(rows):
        jobs = [str(row.get("job")) for row in rows if row.get("rich") == "1"]
        return ("clerk", "other") if jobs.count("smith") > 1 else ("clerk",)

    assert dearest(grouped_release(seen), Adjacency.ADD_OR_REMOVE_ONE) > 3.5
