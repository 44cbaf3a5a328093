"""One PDF, office, book or Outlook file more changes no other file's record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl_rag.conversion import Conversions, NotConvertedError
from dpicl_rag.conversion.conversions import Outcome
from dpicl_rag.loaders import sources, text_files
from tests.support import made_files
from tests.unit.loaders.neighbouring_files import differences, files

pytestmark = made_files.needs_files
SEEDS = range(12)


@pytest.fixture(scope="module")
def those() -> list[tuple[str, bytes]]:
    return files()


@pytest.mark.heavy
@pytest.mark.parametrize("seed", SEEDS)
def test_one_file_changes_no_other(
    tmp_path: Path, seed: int, those: list[tuple[str, bytes]]
) -> None:
    assert differences(tmp_path / "in", seed, those) == []


def _found(tmp_path: Path, those: list[tuple[str, bytes]]) -> Iterator[str]:
    """What differs, folder by folder: whoever looks for one thing ends with the first."""
    for seed in SEEDS:
        yield from differences(tmp_path / f"{seed}", seed, those)


@pytest.mark.heavy
def test_a_child_that_one_file_ends_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, those: list[tuple[str, bytes]]
) -> None:
    """The fault: what follows a damaged file is lost with it."""
    convert = Conversions.convert
    ended: list[Conversions] = []

    def fault(self: Conversions, kind: str, content: bytes) -> bytes:
        if self in ended:
            raise NotConvertedError(Outcome.BROKE_OFF)
        try:
            return convert(self, kind, content)
        except NotConvertedError:
            ended.append(self)
            raise

    monkeypatch.setattr(Conversions, "convert", fault)
    assert any("went or changed" in one for one in _found(tmp_path, those))


def test_a_detection_that_looks_at_other_files_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, those: list[tuple[str, bytes]]
) -> None:
    """The fault: control characters are counted over all files."""
    seen: list[bytes] = []

    def fault(raw: bytes) -> bool:
        seen.append(raw)
        return sources.is_binary(b"".join(seen))

    monkeypatch.setattr(text_files, "is_binary", fault)
    texts = [one for one in those if one[0] in ("txt", "md")]
    assert any("went or changed" in one for one in _found(tmp_path, texts))
