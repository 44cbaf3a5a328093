"""Ten thousand corpora, each loaded without and with one unit more.

``DPICL_RAG_FUZZ_CORPORA`` sets how many, or which: ``2500:5000`` is the second of four parts. Of
sources that are followed for a while, with a hostile unit of each kind, there are a tenth of it; of
counts over a reader, as many as corpora. Of folders that are converted there are a hundredth: each
starts a process of its own, twice.
"""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl_rag.loaders import streams
from tests.support import made_files
from tests.unit.following.neighbouring_sources import (
    FILES,
    MAILS,
    file_differences,
    mail_differences,
)
from tests.unit.language_models.readers import neighbouring_replies
from tests.unit.loaders import neighbouring_files
from tests.unit.loaders.neighbours import corpus
from tests.unit.loaders.neighbours import differences as loaded_differences

FIRST, _, LAST = os.environ.get("DPICL_RAG_FUZZ_CORPORA", "10000").rpartition(":")
SEEDS = range(int(FIRST or 0), int(LAST))


@pytest.mark.stress
def test_one_unit_moves_no_other(
    capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    tried: Counter[str] = Counter()
    for seed in SEEDS:
        files = corpus(seed)
        with tempfile.TemporaryDirectory() as folder:
            assert loaded_differences(files, Path(folder)) == [], seed
        tried[files.kind] += 1
    record_property("corpora", dict(tried))
    with capsys.disabled():
        sys.stdout.write(f"\n{dict(tried)}: one unit moved no other\n")


@pytest.mark.stress
@made_files.needs_files
def test_one_file_moves_no_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    those = neighbouring_files.files()
    seeds = [seed // 100 + 1_000 for seed in SEEDS if seed % 100 == 0]
    for seed in seeds:
        found = neighbouring_files.differences(tmp_path / f"{seed}", seed, those)
        assert found == [], seed
    with capsys.disabled():
        sys.stdout.write(f"\n{len(seeds)} folders of files: one file moved no other\n")


@pytest.mark.stress
def test_one_hostile_unit_moves_no_other_where_sources_are_followed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_PACKED_BYTES", 2**20)
    kinds = [*MAILS, *FILES]
    tried: Counter[str] = Counter()
    for seed in (seed // 10 for seed in SEEDS if seed % 10 == 0):
        kind = kinds[seed % len(kinds)]
        differences = mail_differences if kind in MAILS else file_differences
        with tempfile.TemporaryDirectory() as folder:
            assert differences(Path(folder), seed, kind) == [], seed
        tried[kind] += 1
    with capsys.disabled():
        sys.stdout.write(f"\n{dict(tried)}: one hostile unit moved no other\n")


@pytest.mark.stress
def test_one_hostile_unit_moves_no_reply_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    tried: Counter[str] = Counter()
    kinds = [*neighbouring_replies.KINDS]
    for seed in SEEDS:
        kind = kinds[seed % len(kinds)]
        assert neighbouring_replies.differences(seed, kind) == [], seed
        tried[kind] += 1
    with capsys.disabled():
        sys.stdout.write(f"\n{dict(tried)}: one hostile unit moved no reply\n")
