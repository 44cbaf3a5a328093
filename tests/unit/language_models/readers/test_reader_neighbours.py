"""One unit's prompts move no other unit's reply."""

from __future__ import annotations

import pytest

from tests.unit.language_models.readers.neighbouring_replies import KINDS, differences


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_unit_moves_no_reply_of_others(kind):
    for seed in range(20 if KINDS[kind] is None else 3):
        assert differences(seed, kind) == [], seed
