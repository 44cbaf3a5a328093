"""A long search for bytes that break the loaders.

``DPICL_RAG_FUZZ_SECONDS`` sets how long it runs, 20 seconds by default.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.unit.loaders.loading_contract import NAMES, UNITS, check_load, contents


@pytest.mark.stress
def test_nothing_breaks_the_loaders(
    capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    end = time.monotonic() + float(os.environ.get("DPICL_RAG_FUZZ_SECONDS", "20"))
    tried = loaded = 0

    # Each round draws afresh; a failure is shrunk and printed by hypothesis.
    @settings(
        max_examples=500,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.dictionaries(st.sampled_from(NAMES), contents(), min_size=1, max_size=3),
        st.sampled_from(UNITS),
        st.sampled_from([None, None, "text", "a"]),
    )
    def check(files: dict[str, bytes], unit: str | None, text_field: str | None) -> None:
        nonlocal tried, loaded
        if time.monotonic() > end:
            return
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                (Path(folder) / name).write_bytes(content)
            path = Path(folder) if len(files) > 1 else Path(folder) / next(iter(files))
            tried += 1
            loaded += check_load(path, unit, text_field) is not None

    while time.monotonic() < end:
        check()
    record_property("inputs", tried)
    record_property("inputs with something to load", loaded)
    with capsys.disabled():
        sys.stdout.write(f"\n{tried} inputs, {loaded} with something to load, none broke\n")
    assert tried > loaded > 0
