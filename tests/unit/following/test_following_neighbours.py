"""A hostile unit changes nothing of others where sources are followed: a few of many histories."""

from pathlib import Path

import pytest

from dpicl_rag.loaders import streams
from tests.unit.following.neighbouring_sources import (
    FILES,
    MAILS,
    file_differences,
    mail_differences,
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", MAILS)
def test_hostile_mails_move_no_other(tmp_path: Path, kind: str, seed: int) -> None:
    assert mail_differences(tmp_path, seed, kind) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", FILES)
def test_hostile_files_move_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    monkeypatch.setattr(streams, "MAX_PACKED_BYTES", 2**20)
    assert file_differences(tmp_path, seed, kind) == []
