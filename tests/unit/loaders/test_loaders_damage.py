"""What one damaged or strange record costs: itself."""

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders import LoadResult, Skipped, load
from dpicl_rag.loaders.reasons import (
    BAD_HEADER,
    NOT_CSV,
    TOO_MANY_FIELDS,
    UNCLOSED_QUOTE,
    UNREADABLE_FOLDER,
)

ROWS = [["1", "one"], ["2", 'say "hi"'], ["3", "a\nb"], ["4", "x, y"], ["5", ""], ["6", "end\n"]]


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., LoadResult]:
    def read(*lines: str, **options: str) -> LoadResult:
        path = tmp_path / "t.csv"
        path.write_bytes("".join(lines).encode())
        return load(path, **options)  # type: ignore[arg-type]

    return read


def written(rows: list[list[str]]) -> list[str]:
    """Each row as a program writes it."""
    lines = []
    for row in rows:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerow(row)
        lines.append(buffer.getvalue())
    return lines


def numbers(found: LoadResult) -> list[str]:
    return [document.metadata["n"] for document in found.documents]


@pytest.mark.parametrize("place", range(len(ROWS) + 1))
@pytest.mark.parametrize(
    "line",
    [
        '9,"lost\n',
        '"\n',
        '9,"\n',
        '"9,lost\n',
        "9,5'10\"\n",
        '"x"y,9\n',
        '9",\n',
        "9,a,b\n",
        '"",""\n',
    ],
)
def test_a_damaged_line_costs_itself(
    table: Callable[..., LoadResult], line: str, place: int
) -> None:
    lines = written(ROWS)
    found = table("n,said\n", *lines[:place], line, *lines[place:])
    assert [n for n in numbers(found) if n] == [row[0] for row in ROWS]
    assert len(found.report.skipped) == 1


def test_no_row_after_an_unclosed_quote_is_lost(table: Callable[..., LoadResult]) -> None:
    lines = [f"{number},words\n" for number in range(300)]
    lines[12] = '12,"words\n'
    found = table("n,said\n", *lines)
    assert found.report.loaded == 299
    assert found.report.skipped == (Skipped("row 13 (line 14)", UNCLOSED_QUOTE),)


def test_two_people_are_not_made_one_by_a_quote(table: Callable[..., LoadResult]) -> None:
    found = table("n,said,more\n", '1,"a,b\n', "2,c,d\n", '3,e,f"\n', "4,g,h\n")
    assert numbers(found) == ["2", "4"]
    assert [item.reason for item in found.report.skipped] == [NOT_CSV, NOT_CSV]


def test_what_a_row_says_makes_no_other(table: Callable[..., LoadResult]) -> None:
    said = '\n7,forged\n"8",forged\n","\n9,"forged"'
    assert numbers(table("n,said\n", *written([["1", said], ["2", "x"]]))) == ["1", "2"]


@pytest.mark.parametrize("header", ['n,"said\n', 'n,sa"id\n', "n,\rsaid\n", "a," * 1_001 + "a\n"])
def test_without_a_header_nothing_is_read(table: Callable[..., LoadResult], header: str) -> None:
    found = table(header, "1,x\n")
    assert found.documents == []
    assert found.report.skipped == (Skipped("line 1", BAD_HEADER),)


@pytest.mark.parametrize("row", ["1;a;b;c;d;e\n", "a;b\n" * 30, "1\t2\t3\n"])
def test_the_header_alone_shows_the_delimiter(table: Callable[..., LoadResult], row: str) -> None:
    found = table("n,said;more\n", "1,x;y\n", row, "2,z\n")
    assert [n for n in numbers(found) if n in ("1", "2")] == ["1", "2"]
    assert found.documents[0].metadata == {"n": "1", "said;more": "x;y"}


def test_a_row_with_too_many_fields(table: Callable[..., LoadResult]) -> None:
    found = table("n,said\n", '1,"a","b"\n', "2,x\n")
    assert found.report.skipped == (Skipped("row 1 (line 2)", TOO_MANY_FIELDS),)
    assert numbers(found) == ["2"]


@pytest.mark.parametrize("options", [{"unit": "smokes"}, {"text_field": "smokes"}])
@pytest.mark.parametrize("rows", [[], ['{"a": "x"}'], ['{"a": "x"}', '{"smokes": "yes"}']])
def test_lines_of_json_decide_no_error(
    tmp_path: Path, rows: list[str], options: dict[str, str]
) -> None:
    (tmp_path / "t.jsonl").write_text("".join(f"{row}\n" for row in rows))
    for path in (tmp_path, tmp_path / "t.jsonl"):
        found = load(path, **options)  # type: ignore[arg-type]
        assert found.report.loaded == (len(rows) == 2)
        assert len(found.report.skipped) == (len(rows) > 0)
        assert found.report.columns == (("a",) if len(rows) == 1 else ())


@pytest.mark.parametrize("options", [{"unit": "no"}, {"text_field": "no"}, {"key_field": "no"}])
@pytest.mark.parametrize("rows", ["", "1,x\n", "1,x,no\n"])
def test_the_header_of_a_table_decides(
    table: Callable[..., LoadResult], rows: str, options: dict[str, str]
) -> None:
    with pytest.raises(ConfigurationError, match="'no'; there are: 'n', 'said'"):
        table("n,said\n", rows, **options)
    assert table("n,no\n", **options).documents == []


def test_a_folder_that_cannot_be_listed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    scan = os.scandir

    def refuse(path: str) -> object:
        if os.path.basename(path) == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        found = load(tmp_path)
    assert [document.text for document in found.documents] == ["open"]
    assert found.report.skipped == (Skipped("closed", UNREADABLE_FOLDER),)
