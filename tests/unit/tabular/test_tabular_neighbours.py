"""One row more in a file: what is read of the others for a release is the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.support.neighbouring_units import TableCase, check_labelled, check_table, tables


@settings(max_examples=150, derandomize=True, deadline=None)
@given(tables())
def test_a_row_moves_no_other_row_of_a_release(case: TableCase) -> None:
    check_table(case)


@pytest.mark.heavy
@settings(max_examples=100, derandomize=True, deadline=None)
@given(tables())
def test_a_row_moves_no_other_row_of_a_pool(case: TableCase) -> None:
    check_labelled(case)
