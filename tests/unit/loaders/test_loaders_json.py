"""JSON files: arrays of objects and objects by the line; what is damaged in one costs that one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import load
from dpicl_rag.loaders.table_files import split_array

ROWS = [{"text": "one", "who": "Ann"}, {"text": 'two, [three] \\ "four"', "who": "Bo"}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.json"


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_an_array_is_rows(path: Path, indent: int | None, encoding: str) -> None:
    path.write_text(json.dumps(ROWS, indent=indent), encoding=encoding)
    found = load(path, unit="who")
    assert [d.text for d in found.documents] == [row["text"] for row in ROWS]
    assert [d.unit for d in found.documents] == ["Ann", "Bo"]
    assert load(path).report.unit == "one row"


def test_an_array_and_lines_are_the_same_rows(path: Path, tmp_path: Path) -> None:
    path.write_text(json.dumps(ROWS))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    one, other = (load(p).documents for p in (path, tmp_path / "rows.jsonl"))
    assert [d.unit for d in one] == [d.unit for d in other]


def test_objects_by_the_line_are_rows_too(path: Path) -> None:
    path.write_text("{broken\n" + "".join(json.dumps(row) + "\n" for row in ROWS))
    found = load(path)
    assert (found.report.loaded, len(found.report.skipped)) == (2, 1)


DAMAGED = [
    '"No"', "7", "null", "[1, 2]", "NaN", "9" * 5000, "[" * 2000 + "]" * 2000, '{"text": }', "",
    '{"text": "a", "a": {}}, {"text": ""', '{"text" "x"}', "{'text': 'x'}", '{"\\ud800": "\\ud800"',
]  # fmt: skip


@pytest.mark.parametrize("item", DAMAGED)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_damaged_item_costs_itself(path: Path, item: str, place: int) -> None:
    items = [json.dumps(row) for row in ROWS]
    item += "}" * (item.count("{") - item.count("}"))
    items.insert(place, item)
    path.write_text("[" + ",\n".join(items) + "]")
    found = load(path, unit="who")
    assert [d.text for d in found.documents] == [row["text"] for row in ROWS]
    assert all(item.position.startswith("item ") for item in found.report.skipped)


@pytest.mark.parametrize(
    "whole",
    ['[{"text": "a"}, {"text": "b"', '[{"text": "a}]', '[{"text": "a"}] x', "[}]", "[[}]]",
     '{\n"tickets": [\n{"text": "a"}\n]\n}'],
)  # fmt: skip
def test_what_is_no_array_is_refused_as_a_whole(path: Path, whole: str) -> None:
    path.write_text(whole)
    with pytest.raises(LoaderError, match="JSON"):
        load(path)
    (path.parent / "a.txt").write_text("words")
    found = load(path.parent)
    assert [d.text for d in found.documents] == ["words"]
    assert [item.position for item in found.report.skipped] == ["rows.json"]


def test_it_may_be_packed_and_empty(path: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.json.gz").write_bytes(gzip.compress(json.dumps(ROWS).encode()))
    assert load(tmp_path / "rows.json.gz").report.loaded == 2
    for nothing in ("", "[]", " [ ]\n"):
        path.write_text(nothing)
        assert load(path).report.read == 0


def test_bytes_that_are_no_characters_tell_people_apart(path: Path) -> None:
    path.write_bytes(b'[{"who": "m\x81", "text": "a"}, {"who": "m\x8d", "text": "b"}]')
    one, other = load(path, unit="who").documents
    assert one.unit != other.unit


def test_the_cut_is_at_commas_of_the_array_alone() -> None:
    assert split_array(b' [1, [2, {"a": ",]"}], "\\",[" ]\n') == [
        b"1", b' [2, {"a": ",]"}]', b' "\\",[" ',
    ]  # fmt: skip
