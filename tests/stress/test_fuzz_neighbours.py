"""Ten thousand corpora, each loaded without and with one unit more.

``DPICL_RAG_FUZZ_CORPORA`` sets how many.
"""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.loaders.neighbours import corpus, differences


@pytest.mark.stress
def test_one_unit_moves_no_other(
    capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    tried: Counter[str] = Counter()
    for seed in range(int(os.environ.get("DPICL_RAG_FUZZ_CORPORA", "10000"))):
        files = corpus(seed)
        with tempfile.TemporaryDirectory() as folder:
            assert differences(files, Path(folder)) == [], seed
        tried[files.kind] += 1
    record_property("corpora", dict(tried))
    with capsys.disabled():
        sys.stdout.write(f"\n{dict(tried)}: one unit moved no other\n")
