"""Which examples stand in which row, and that fewer experts share the rows of more."""

from __future__ import annotations

import pytest

from dpicl_rag.methods.base import (
    ContentFree,
    Groups,
    OneEach,
    OnePrompt,
    Subsampled,
    ZeroShot,
)
from dpicl_research.context_rows import Coins, LeaveOneOut, distinct


def test_the_fixed_layouts():
    coins = Coins(0, 0)
    assert coins.subsets(ZeroShot(), 3) == [()]
    assert coins.subsets(OneEach(), 3) == [(0,), (1,), (2,)]
    assert coins.subsets(OnePrompt(), 3) == [(0, 1, 2)]
    assert coins.subsets(LeaveOneOut(), 3) == [(1, 2), (0, 2), (0, 1)]
    assert coins.subsets(ContentFree(OneEach()), 2) == [(0,), (1,)]


def test_groups_hold_everyone_once_and_stay_for_a_seed():
    groups = Coins(3, 0).subsets(Groups(4), 8)
    assert len(groups) == 4
    assert sorted(i for group in groups for i in group) == list(range(8))
    assert groups == Coins(3, 9).subsets(Groups(4), 8)
    assert groups == Coins(3, 0).subsets(ContentFree(Groups(4)), 8)
    assert any(Coins(seed, 0).subsets(Groups(4), 8) != groups for seed in range(4, 8))


def test_subsamples_have_fresh_coins_for_every_query_and_the_right_rate():
    layout = Subsampled(2000, 0.3)
    first, second = (Coins(0, query).subsets(layout, 5) for query in range(2))
    assert first != second
    assert len(first) == 2000
    for i in range(5):
        share = sum(i in subset for subset in first) / 2000
        assert share == pytest.approx(0.3, abs=0.04)
    both = sum({0, 1} <= set(subset) for subset in first) / 2000
    assert both == pytest.approx(0.09, abs=0.03)


def test_groups_of_a_sample_have_fresh_coins_of_their_own():
    layout = Groups(5, 0.4)
    first, second = (Coins(0, query).subsets(layout, 400) for query in range(2))
    assert first != second
    members = [i for group in first for i in group]
    assert len(members) == len(set(members)) == pytest.approx(160, abs=40)
    assert [len(group) for group in first] == pytest.approx([32] * 5, abs=22)
    rarer = [i for group in Coins(0, 0).subsets(Groups(2, 0.1), 400) for i in group]
    assert set(rarer) < set(members)  # at another rate, by the same coins


@pytest.mark.parametrize(
    "layout", [Subsampled(50, 0.3), OneEach(0.5), Groups(3), Groups(3, 0.5), OneEach()]
)
def test_a_smaller_context_is_the_beginning_of_a_larger(layout):
    coins = Coins(1, 2)
    large, small = coins.subsets(layout, 8), coins.subsets(layout, 4)
    cut = [tuple(i for i in subset if i < 4) for subset in large]
    if isinstance(layout, OneEach):
        cut = [subset for subset in cut if subset]
    assert small == cut


def test_a_rate_keeps_whole_units():
    rows = Coins(0, 0).subsets(OneEach(0.5), 200)
    assert all(len(row) == 1 for row in rows)
    assert 70 < len(rows) < 130


def test_distinct_subsets_of_several_layouts():
    wanted = [(ZeroShot(), 2), (OneEach(), 2), (OnePrompt(), 2), (OneEach(), 1), (OnePrompt(), 1)]
    with_query, without = distinct([*wanted, (ContentFree(ZeroShot()), 2)], Coins(0, 0))
    assert with_query == {(), (0,), (1,), (0, 1)}
    assert without == {()}
