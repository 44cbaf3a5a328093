"""One unit more among labelled records: the pools hold the same of all others."""

from __future__ import annotations

from hypothesis import given, settings

from tests.support.neighbouring_units import PoolCase, check_pools, pool_cases


@settings(max_examples=300, derandomize=True, deadline=None)
@given(pool_cases())
def test_a_unit_moves_no_other_in_a_pool(case: PoolCase) -> None:
    check_pools(case)
