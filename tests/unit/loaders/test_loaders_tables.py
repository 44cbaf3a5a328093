"""CSV and JSON Lines."""

import csv
import gzip
import io
import json
from collections import Counter
from pathlib import Path

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders import LoadResult, Skipped, load
from dpicl_rag.loaders.reasons import NOT_CSV


def load_csv(tmp_path: Path, content: str | bytes, **options: str) -> LoadResult:
    path = tmp_path / "table.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load(path, **options)  # type: ignore[arg-type]


def load_lines(tmp_path: Path, *lines: object, **options: str) -> LoadResult:
    path = tmp_path / "table.jsonl"
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    return load(path, **options)  # type: ignore[arg-type]


def test_a_row_is_its_fields(tmp_path: Path) -> None:
    found = load_csv(tmp_path, "name,age\nAnn,41\nBob,\n")
    assert [document.text for document in found.documents] == ["name: Ann\nage: 41", "name: Bob"]
    assert found.documents[1].metadata == {"name": "Bob", "age": ""}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(tmp_path: Path, delimiter: str) -> None:
    rows = [["name", "note"], ["Ann", "one, two; three | four"], ["Bob", 'say "hi"\nand go']]
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter).writerows(rows)
    found = load_csv(tmp_path, buffer.getvalue())
    assert [list(document.metadata.values()) for document in found.documents] == rows[1:]


def test_one_column(tmp_path: Path) -> None:
    found = load_csv(tmp_path, "note\nfirst words here\nother words\n")
    assert [document.text for document in found.documents] == [
        "note: first words here",
        "note: other words",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    found = load_csv(tmp_path, "Größe,b\nZoë,1\n".encode(encoding))
    assert found.documents[0].metadata == {"Größe": "Zoë", "b": "1"}


def test_compressed(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1, "b": 2}\n'))
    assert load(tmp_path / "t.csv.gz").documents == load(tmp_path / "t.jsonl.gz").documents


def test_rows_that_cannot_be_read_are_placed(tmp_path: Path) -> None:
    found = load_csv(tmp_path, 'a,b\n1,"x\ny"\n1,2,3\n,\n\n4,5\n6,"lost\n7,8\n')
    assert found.report.read == 6
    assert found.report.skipped == (
        Skipped("row 2 (line 4)", "more fields than the header has columns"),
        Skipped("row 3 (line 5)", "empty"),
        Skipped("row 5 (line 8)", "a quote that is not closed"),
    )
    assert [document.metadata["a"] for document in found.documents] == ["1", "4", "7"]


def test_a_lone_carriage_return_costs_one_row(tmp_path: Path) -> None:
    found = load_csv(tmp_path, "a,b\n1,x\ry\n2,z\n")
    assert found.report.skipped == (Skipped("row 1 (line 2)", NOT_CSV),)
    assert found.report.loaded == 1


def test_a_long_field_is_read(tmp_path: Path) -> None:
    long = csv.field_size_limit() + 1
    found = load_csv(tmp_path, "a,b\n1," + "x" * long + "\n")
    assert len(found.documents[0].metadata["b"]) == long


def test_json_values_become_words(tmp_path: Path) -> None:
    row = {"name": "Ann", "age": 41, "well": True, "none": None, "signs": ["ache", "cough"]}
    found = load_lines(tmp_path, {**row, "deep": {"x": [1]}})
    assert found.documents[0].metadata == {
        "name": "Ann",
        "age": "41",
        "well": "true",
        "none": "",
        "signs": "ache, cough",
        "deep": '{"x": [1]}',
    }
    assert "none" not in found.documents[0].text
    assert "signs: ache, cough" in found.documents[0].text


def test_lines_that_cannot_be_read_are_placed(tmp_path: Path) -> None:
    deep = "[" * 100_000
    lines = ['{"a": 1}', "", "{broken", "[1]", '"words"', deep, "{}", '{"a": null}', "9" * 5000]
    found = load_lines(tmp_path, *lines)
    assert found.report.loaded == 1
    assert found.report.skipped == (
        Skipped("line 3", "not valid JSON"),
        Skipped("line 4", "not a JSON object"),
        Skipped("line 5", "not a JSON object"),
        Skipped("line 6", "nested too deeply"),
        Skipped("line 7", "empty"),
        Skipped("line 8", "empty"),
        Skipped("line 9", "not valid JSON"),
    )


def test_a_line_beyond_the_limit_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("streams", "delimited"):
        monkeypatch.setattr(f"dpicl_rag.loaders.{module}.MAX_RECORD_BYTES", 50)
    found = load_lines(tmp_path, {"a": 1}, {"a": "x" * 500}, {"a": 3})
    assert found.report.skipped == (Skipped("line 2", "larger than 16 MiB"),)
    assert found.report.loaded == 2


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    found = load_lines(tmp_path, '{"a": "x\\ud800y\\u0000z"}')
    assert found.documents[0].text == "a: x\ufffdyz"


@pytest.mark.parametrize("name", ["text", "Text", "BODY", "content", "message"])
def test_a_text_column_is_the_text(tmp_path: Path, name: str) -> None:
    found = load_lines(tmp_path, {"label": "x", name: "the words"})
    assert found.documents[0].text == "the words"


def test_a_request_is_one_field_of_several(tmp_path: Path) -> None:
    found = load_lines(tmp_path, {"request": "help", "disease": "x"})
    assert found.documents[0].text == "request: help\ndisease: x"


def test_text_field(tmp_path: Path) -> None:
    rows = [{"text": "no", "note": "yes"}, {"text": "no"}, {"text": "no", "note": ""}]
    found = load_lines(tmp_path, *rows, text_field="note")
    assert [document.text for document in found.documents] == ["yes"]
    assert Counter(item.reason for item in found.report.skipped) == {"no text in the text field": 2}


def test_a_text_field_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'body'; there are: 'a', 'b'"):
        load_csv(tmp_path, "a,b\n1,2\n", text_field="body")


def test_a_column_as_unit(tmp_path: Path) -> None:
    found = load_csv(tmp_path, "name,visit\nAnn,1\nBob,2\n,3\n Ann ,4\n", unit="name")
    assert [document.unit for document in found.documents] == ["Ann", "Bob", "Ann"]
    assert found.report.skipped == (Skipped("row 3 (line 4)", "no value for the privacy unit"),)


def test_a_unit_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="privacy unit 'patient'; there are: 'a', 'b'"):
        load_csv(tmp_path, "a,b\n1,2\n", unit="patient")


def test_the_names_in_an_error_are_cut(tmp_path: Path) -> None:
    # Without a header row the "names" are somebody's values.
    with pytest.raises(ConfigurationError) as caught:
        load_csv(tmp_path, "x" * 500 + ",b\n1,2\n", unit="c")
    assert "x" * 41 not in str(caught.value)


def test_equal_rows_are_units_of_their_own_that_do_not_depend_on_others(tmp_path: Path) -> None:
    units = [document.unit for document in load_csv(tmp_path, "a,b\n1,2\n1,2\n3,4\n").documents]
    assert len(set(units)) == 3
    without = [document.unit for document in load_csv(tmp_path, "a,b\n3,4\n1,2\n").documents]
    assert without == [units[2], units[0]]


def units(found: LoadResult) -> list[str]:
    return [document.unit for document in found.documents]


def test_a_key_names_the_row_whatever_else_it_says(tmp_path: Path) -> None:
    before = units(load_csv(tmp_path, "Id,b\n1,2\n3,4\n"))
    assert units(load_csv(tmp_path, "b,Id,c\nx,3,y\n2,1,z\n")) == [before[1], before[0]]
    assert units(load_lines(tmp_path, {"id": 1, "other": "words"})) == [before[0]]


def test_a_row_without_a_key_is_known_by_its_content(tmp_path: Path) -> None:
    one, other = units(load_csv(tmp_path, "id,b\n,2\n,4\n"))
    assert one != other == units(load_csv(tmp_path, "id,b\n,4\n"))[0]


def test_a_named_key(tmp_path: Path) -> None:
    found = load_csv(tmp_path, "id,nr,b\n1,7,x\n2,7,y\n3,,z\n", key_field="nr")
    assert len(found.documents) == 2
    assert len(set(units(found))) == 1
    assert found.report.skipped == (Skipped("row 3 (line 4)", "no value in the key field"),)
    with pytest.raises(ConfigurationError, match="key field 'no'; there are: 'id', 'nr', 'b'"):
        load_csv(tmp_path, "id,nr,b\n1,7,x\n", key_field="no")


def test_a_record_is_named_by_its_file_and_key(tmp_path: Path) -> None:
    found = load_csv(tmp_path, "id,b\n1,x\n1,y\n,z\n").documents
    records = [document.origin.record for document in found]
    assert records[2] == ""
    assert records[0] != records[1]
    again = load_csv(tmp_path, "id,b\n1,edited\n").documents
    assert again[0].origin.record == records[0]
    (tmp_path / "other").mkdir()
    assert load_csv(tmp_path / "other", "id,b\n1,x\n").documents[0].origin.record != records[0]


def test_a_row_of_very_many_fields_is_skipped(tmp_path: Path) -> None:
    wide = {f"field {number}": "x" for number in range(1_001)}
    found = load_lines(tmp_path, {"text": "one"}, wide)
    assert [document.text for document in found.documents] == ["one"]
    assert found.report.skipped == (Skipped("line 2", "more than 1,000 fields"),)


def test_a_column_without_a_name_gets_a_number(tmp_path: Path) -> None:
    found = load_csv(tmp_path, ",text\n0,hello\n")
    assert [document.metadata for document in found.documents] == [
        {"column 1": "0", "text": "hello"}
    ]
    found = load_lines(tmp_path, {"text": "hello", "": 1})
    assert found.documents[0].metadata == {"text": "hello", "column 2": "1"}
