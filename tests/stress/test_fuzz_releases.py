"""A long search for a unit that moves another in a private table, a pool or a folder of pictures.

10,000 cases; ``DPICL_RAG_FUZZ_SECONDS`` ends it earlier.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.support import neighbouring_units as units

CASES = {
    "tables": (units.tables(), units.check_table, 3_000),
    "labelled tables": (units.tables(), units.check_labelled, 2_000),
    "pools": (units.pool_cases(), units.check_pools, 3_500),
    "pictures": (units.picture_cases(), units.check_pictures, 1_500),
}


@pytest.mark.stress
@pytest.mark.parametrize("kind", CASES)
def test_no_unit_moves_another(kind: str, record_property: Callable[[str, object], None]) -> None:
    cases, check, most = CASES[kind]
    end = time.monotonic() + float(os.environ.get("DPICL_RAG_FUZZ_SECONDS", "inf"))
    tried = 0

    @settings(
        max_examples=most,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def search(case: Any) -> None:
        nonlocal tried
        if time.monotonic() < end:
            tried += 1
            check(case)

    search()
    record_property(kind, tried)
    assert tried > 0
