"""Bytes from strangers: nothing crashes, nothing is lost without a word."""

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import Skipped, load
from dpicl_rag.loaders.reasons import DAMAGED
from tests.unit.loaders.loading_contract import NAMES, UNITS, check_load, contents


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.sampled_from(NAMES), contents(), st.sampled_from(UNITS))
def test_any_file(name: str, content: bytes, unit: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        check_load(path, unit)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    st.dictionaries(st.sampled_from(NAMES), contents(), max_size=4),
    st.sampled_from(UNITS),
    st.sampled_from([None, "text"]),
)
def test_any_directory(files: dict[str, bytes], unit: str | None, text_field: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        check_load(Path(folder), unit, text_field)


@pytest.mark.parametrize("size", range(0, 260, 7))
def test_of_a_truncated_archive_nothing_is_kept(tmp_path: Path, size: int) -> None:
    whole = gzip.compress(b"".join(b'{"text": "row %d"}\n' % n for n in range(300)))
    assert len(whole) > 260
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(whole[: len(whole) - size])
    result = check_load(tmp_path, None)
    assert result is not None
    if size == 0:
        assert result.report.loaded == 300
        return
    assert result.documents == []
    assert result.report.skipped == (Skipped("a.jsonl.gz", DAMAGED),)
    with pytest.raises(LoaderError, match=DAMAGED):
        load(path)
