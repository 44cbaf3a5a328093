"""What a corpus holds of some units follows from those units alone, in whatever parts they came."""

from __future__ import annotations

import random

import pytest

from tests.support.mailboxes import check_neighbours, check_orders


@pytest.mark.parametrize("seed", [*range(20), 1180])
def test_any_order_and_any_parts_give_the_same_units(seed: int) -> None:
    check_orders(random.Random(seed))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(25))
def test_a_unit_changes_nothing_of_the_others(seed: int) -> None:
    check_neighbours(random.Random(seed))
