"""The groups of DP-TabICL's Table VII, and of its code: the label, and two columns cut in two.

Carey et al. 2024. One row is made of all rows, two by the label, four by the label and the first
column, eight by both columns. The published code has Table VII's conditions but for two: it groups
Bank by other columns (`CODE_GROUPS`), and for Car's doors it compares the price with numbers of
doors, so that no row with three doors or five is in any of its eight groups; here they are the
doors' own, (2, 3) against (4, 5 or more).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.tabular.schema import Category, Column, Schema

Cut = float | tuple[str, ...]
"""The least whole number of the upper group, or the values of one group."""

GROUPS: Mapping[str, Mapping[str, Cut]] = {
    "adult": {"sex": ("Male",), "race": ("White",)},
    "bank": {"marital": ("married",), "contact": ("cellular",)},
    "blood": {"frequency": 6, "recency": 11},
    "calhousing": {"housing_median_age": 26, "population": 2001},
    "car": {"buying": ("high", "vhigh"), "doors": ("4", "5more")},
    "diabetes": {"Pregnancies": 5, "Age": 34},
    "heart": {"Sex": ("F",), "ExerciseAngina": ("Y",)},
    "jungle": {"white_piece0_strength": 5, "black_piece0_strength": 5},
}
"""By data set and column, the first one first."""

CODE_GROUPS: Mapping[str, Mapping[str, Cut]] = {
    **GROUPS,
    "bank": {"poutcome": ("success",), "age": 51},
}
"""The same of the published code."""


def published_groups(name: str, groups: Mapping[str, Mapping[str, Cut]] = GROUPS) -> Schema:
    """A packaged schema whose rows are grouped as in the paper.

    A column of numbers that is grouped by has that one cut and no other.

    Args:
        name: Of the data set.
        groups: Those of the paper or of its code.

    Raises:
        ConfigurationError: The paper has no such data set.
    """
    if name not in groups:
        raise ConfigurationError(f"the paper groups {', '.join(groups)}; {name!r} is none of them")
    schema, cuts = Schema.read(name), groups[name]
    columns = tuple(
        cut_in_two(one, cuts[one.name]) if one.name in cuts else one for one in schema.columns
    )
    return replace(schema, columns=columns, group_by=tuple(cuts))


def cut_in_two(column: Column, cut: Cut) -> Column:
    """The column with a bit of its own: 1 from a number on, or for some values."""
    if isinstance(column, Category):
        assert isinstance(cut, tuple)
        return replace(column, ones=cut)
    assert not isinstance(cut, tuple)
    return replace(column, cuts=(cut,), typical=())
