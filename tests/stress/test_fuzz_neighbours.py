"""Ten thousand corpora, each loaded without and with one unit more.

``DPICL_RAG_FUZZ_CORPORA`` sets how many. Of folders that are converted there are a hundredth of it:
each starts a process of its own, twice.
"""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import made_files
from tests.unit.loaders import neighbouring_files
from tests.unit.loaders.neighbours import corpus, differences

CORPORA = int(os.environ.get("DPICL_RAG_FUZZ_CORPORA", "10000"))


@pytest.mark.stress
def test_one_unit_moves_no_other(
    capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    tried: Counter[str] = Counter()
    for seed in range(CORPORA):
        files = corpus(seed)
        with tempfile.TemporaryDirectory() as folder:
            assert differences(files, Path(folder)) == [], seed
        tried[files.kind] += 1
    record_property("corpora", dict(tried))
    with capsys.disabled():
        sys.stdout.write(f"\n{dict(tried)}: one unit moved no other\n")


@pytest.mark.stress
@made_files.needs_files
def test_one_file_moves_no_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    those = neighbouring_files.files()
    for seed in range(1_000, 1_000 + CORPORA // 100):
        found = neighbouring_files.differences(tmp_path / f"{seed}", seed, those)
        assert found == [], seed
    with capsys.disabled():
        sys.stdout.write(f"\n{CORPORA // 100} folders of files: one file moved no other\n")
