"""The settings that editors complete are those that are checked."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from dpicl_rag.configuration import PrivacyConfig, Settings


def test_they_have_the_fields_and_types_of_the_configuration():
    hints = get_type_hints(Settings)
    assert hints == {
        name: hint for name, hint in get_type_hints(PrivacyConfig).items() if name in hints
    }
    assert set(hints) == set(PrivacyConfig.model_fields)
    assert Settings.__required_keys__ == frozenset()


@pytest.mark.heavy
def test_a_misspelt_setting_is_an_error_of_types(tmp_path):
    from mypy import api

    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from dpicl_rag.configuration import PrivacyConfig\n"
        "PrivacyConfig.create(epsilon=4.0)\n"
        "PrivacyConfig.create(epsilom=4.0)\n"
        "PrivacyConfig.create(accounting='both')\n"
    )
    found, _, status = api.run(["--cache-dir", str(tmp_path / "cache"), str(wrong)])
    assert status == 1
    assert "wrong.py:3" in found
    assert "epsilom" in found
    assert "wrong.py:4" in found
    assert "wrong.py:2" not in found
