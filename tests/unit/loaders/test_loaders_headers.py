"""What names the columns of a table, and which columns are persons'."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.languages.person_names import is_person
from dpicl_rag.loaders import load
from dpicl_rag.loaders.reasons import JSON_OBJECT, UNSAVED
from tests.support import made_files as made

RECORDS = "7,Ida,the lamp flickers\n8,Olaf,the lamp hums\n"
TITLED = "Account;;\nMonth: June;;\n;;\nDay;Payer;What\n3.6.2024;Ida;Rent\n"


def written(folder: Path, name: str, content: str | bytes) -> Path:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


@pytest.mark.parametrize(
    ("table", "line"),
    [
        *((RECORDS, None), (TITLED, 4), ("Report,\na,b\n", 2), ("a@b.org\n", None)),
        # A title that is one cell, as no delimiter stands in it.
        (TITLED.replace(";;", ""), 4),
        ("Account\nDay;Payer\n3.6.2024;Ida\n", 2),
    ],
)
def test_a_first_row_that_is_none_of_names_is_asked_about(
    tmp_path: Path, table: str, line: int | None
) -> None:
    path = written(tmp_path, "t.csv", table)
    with pytest.raises(LoaderError, match="--no-header") as caught:
        load(path)
    hint = f"line {line} looks like names: --header {line}"
    assert ("looks like names" in str(caught.value)) == (hint in str(caught.value)) == bool(line)
    assert not any(word in str(caught.value) for word in ("Ida", "lamp", "Account", "a@b"))
    (skipped,) = load(tmp_path).report.skipped  # in a folder it stops no other
    assert skipped.position == "t.csv"


@pytest.mark.parametrize(
    "names", ["year,2019,2020", ",a,b", "a,b,", "Kunde Nr. 1,x", "Text", "note"]
)
def test_names_are_taken(tmp_path: Path, names: str) -> None:
    assert load(written(tmp_path, "t.csv", f"{names}\nx,y\n" if "," in names else f"{names}\nx\n"))


def test_the_owner_says_where_the_names_are(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", RECORDS)
    assert [one.metadata for one in load(path, header=False).documents] == [
        {"column 1": "7", "column 2": "Ida", "column 3": "the lamp flickers"},
        {"column 1": "8", "column 2": "Olaf", "column 3": "the lamp hums"},
    ]
    named = load(path, header=["id", "who", "what"], unit="who")
    assert [one.unit for one in named.documents] == ["Ida", "Olaf"]
    assert len(load(path, header=1).documents) == 1
    titled = load(written(tmp_path, "titled.csv", TITLED), header=4)
    assert [one.metadata["Payer"] for one in titled.documents] == ["Ida"]


@pytest.mark.parametrize(("header", "above"), [(["No", "Who"], ""), (2, "Guests;\nNo,Who\n")])
def test_too_few_names_are_said(tmp_path: Path, header: int | list[str], above: str) -> None:
    path = written(tmp_path, "t.csv", f"{above}7,Ida,lamp\n8,Olaf,door\n")
    report = load(path, header=header).report
    assert report.loaded == 0
    assert "more fields than there are names of columns" in report.misread
    assert report.misread in report.summary
    # A record that fits is loaded, whoever else is there, and the others are named one by one.
    with path.open("a") as table:
        table.write("9,Una\n")
    grown = load(path, header=header).report
    assert (grown.loaded, grown.misread, grown.skipped) == (1, "", report.skipped)
    sheet = written(tmp_path, "t.xlsx", made.xlsx([[7, "Ida", "lamp"], [8, "Olaf", "door"]]))
    assert load(sheet, header=["No", "Who"]).report.misread


def test_a_line_beyond_the_table_names_no_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", RECORDS)
    with pytest.raises(LoaderError, match="ends before the line that is to name its columns"):
        load(path, header=9)
    assert [one.position for one in load(tmp_path, header=9).report.skipped] == ["t.csv"]
    with pytest.raises(LoaderError, match="cannot be read"):
        load(written(tmp_path, "t.xlsx", made.xlsx([["No"], [8]])), header=9)


def test_without_a_header_no_row_says_how_others_are_read(tmp_path: Path) -> None:
    rows = ["a;b;c,d\n", "1,2\n", "x,y,z,w\n"]
    for gone in range(1, len(rows)):
        left = rows[:gone] + rows[gone + 1 :]
        before = written(tmp_path, "t.csv", "1,2\n" + "".join(rows))
        all_units = {one.unit: one.text for one in load(before, header=False).documents}
        after = written(tmp_path, "t.csv", "1,2\n" + "".join(left))
        units = {one.unit: one.text for one in load(after, header=False).documents}
        assert units.items() <= all_units.items()
        assert len(units) == len(all_units) - 1
    # What would be decided by a row is asked of the owner.
    with pytest.raises(LoaderError, match="--delimiter ';'"):
        load(written(tmp_path, "s.csv", "1;2\n3;4\n"), header=False)
    assert len(load(tmp_path / "s.csv", header=False, delimiter=";").documents) == 2


def test_excel_says_what_stands_between(tmp_path: Path) -> None:
    found = load(written(tmp_path, "t.csv", "sep=;\nNo;Who\n1;Ida, Olaf\n"))
    assert found.documents[0].metadata == {"No": "1", "Who": "Ida, Olaf"}


def test_repeated_columns_are_all_kept(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "Key,Note,Note,Note\nK-1,one,two,\n")
    (found,) = load(path).documents
    assert found.metadata == {"Key": "K-1", "Note": "one", "Note (2)": "two", "Note (3)": ""}
    assert load(path, text_field="Note").documents[0].text == "one\n\ntwo"


WITHIN = [{"id": 1, "who": "Ida", "text": "lamp"}, {"id": 2, "who": "Olaf", "text": "door"}]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", ["cases", "fälle"])
def test_the_list_of_records_is_named(tmp_path: Path, indent: int | None, name: str) -> None:
    whole = {"count": 2, "by": {"who": "[{"}, "tags": ["a"], name: WITHIN}
    path = written(tmp_path, "t.json", json.dumps(whole, indent=indent))
    with pytest.raises(LoaderError, match=rf"--records NAME.*; it holds '{name}'$"):
        load(path)
    found = load(path, unit="who", records=name)
    plain = load(written(tmp_path, "u.json", json.dumps(WITHIN)), unit="who")
    told = [
        [(one.unit, one.text, one.metadata) for one in read.documents] for read in (found, plain)
    ]
    assert told[0] == told[1]
    assert found.report.persons == plain.report.persons
    with pytest.raises(LoaderError, match="it holds"):
        load(path, records="case")
    assert load(path.parent / "u.json", records=name).report.loaded == 2  # a list is one
    # The reason that stands for a file of a folder has no word of it.
    assert [one.reason for one in load(tmp_path).report.skipped] == [JSON_OBJECT]


def test_an_empty_list_of_records_and_damaged_ones(tmp_path: Path) -> None:
    assert load(written(tmp_path, "t.json", '{"cases": []}'), records="cases").report.read == 0
    path = written(tmp_path, "t.json", '{"cases": [{"text": "lamp"}, {"text": }, 7], "cases": 1}')
    report = load(path, records="cases").report
    assert (report.loaded, len(report.skipped)) == (1, 2)


@pytest.mark.parametrize("written_as", ["%s", "%s\n", "{\n%s"])
def test_one_object_with_a_list_is_none_of_records(tmp_path: Path, written_as: str) -> None:
    body = '{"cases": [{"id": 1}, {"id": 2}], "count": 2}'
    text = written_as % (body[1:] if "{\n" in written_as else body)
    with pytest.raises(LoaderError, match="one JSON object"):
        load(written(tmp_path, "t.json", text))


def test_a_line_with_a_list_is_left_out_whatever_the_others_are(tmp_path: Path) -> None:
    whole, plain = '{"cases": [{"id": 1}]}\n', '{"text": "the lamp hums"}\n'
    for lines in ([whole], [whole, plain], [plain, whole]):
        written(tmp_path, "t.json", "".join(lines))
        found = load(tmp_path)
        assert [one.text for one in found.documents] == ["the lamp hums"] * (len(lines) - 1)
        assert [one.reason for one in found.report.skipped] == [JSON_OBJECT]
    assert len(load(written(tmp_path, "t.jsonl", whole)).documents) == 1


@pytest.mark.parametrize(
    "name",
    ["subject_id", "MRN", "patient_no", "reporter", "assignee", "paciente", "Mieter", "client_ref",
     "患者", "患者ID", "客户编号", "Kundennummer", "id_paciente", "Nom du client", "номер пациента",
     "رقم المريض", "रोगी का नाम", "রোগী নম্বর", "مریض نمبر", "Assigned To", "環境ユーザー名"[2:]],
)  # fmt: skip
def test_persons_in_the_most_used_languages(name: str) -> None:
    assert is_person(name)


@pytest.mark.parametrize("name", ["rank", "produit", "番号", "Wert", "品名", "дата", "Parent id"])
def test_no_persons(name: str) -> None:
    assert not is_person(name)


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        (["K-104", "K-209", "K-310", "K-411"], True),
        (["Ida Berg", "Olaf Dahl", "Una Voss", "Per Lind"], True),
        (["2021", "2022", "2023", "2024"], False),
        (["20240103", "20240104", "20240105", "20240106"], False),
        (["open", "shut", "late", "lost"], False),
    ],
)
def test_a_person_is_told_by_what_stands_there(
    tmp_path: Path, values: list[str], asked: bool
) -> None:
    rows = "".join(f"{value},word {at}\n" for at, value in enumerate(values * 3))
    report = load(written(tmp_path, "t.csv", f"zz,what\n{rows}")).report
    assert report.persons == (("zz",) if asked else ())
    # Where each stands once a row is that person's.
    once = "".join(f"K-{at + 100},word\n" for at in range(12))
    assert load(written(tmp_path, "t.csv", f"zz,what\n{once}")).report.persons == ()


def test_a_sheet_asks_as_a_table_does(tmp_path: Path) -> None:
    rows = [["patient", "finding", "note"], ["P1", "", "rest"], ["P2", "flu", "tea"]]
    found = load(written(tmp_path, "t.xlsx", made.xlsx(rows)))
    assert found.documents[0].text == "patient | finding | note\nP1 |  | rest\nP2 | flu | tea"
    assert found.report.persons == ("patient",)
    assert [one.unit for one in load(tmp_path / "t.xlsx", unit="patient").documents] == ["P1", "P2"]
    letter = written(tmp_path, "u.xlsx", made.xlsx([["Dear client"], ["hello"]]))
    assert load(letter).report.persons == ()


def test_a_sheet_with_a_title_is_asked_about_and_refused_as_a_table_is(tmp_path: Path) -> None:
    rows = [["Account"], ["June"], ["Day", "Payer"], ["3.6.", "Ida"], ["4.6.", "Olaf"]]
    path = written(tmp_path, "t.xlsx", made.xlsx(rows))
    assert load(path).report.persons == ("Payer",)
    with pytest.raises(LoaderError, match="line 3 looks like names: --header 3"):
        load(path, unit="Payer")
    assert [one.unit for one in load(path, header=3, unit="Payer").documents] == ["Ida", "Olaf"]
    with pytest.raises(LoaderError, match=r"no column for the privacy unit 'Pay'; .*'Payer'"):
        load(path, header=3, unit="Pay")
    # In a folder it stops no other, and a header is for that folder's tables.
    (skipped,) = load(tmp_path, unit="Payer").report.skipped
    assert "--header 3" in skipped.reason
    assert load(tmp_path, header=1).report.persons == ("Payer",)


def test_a_sheet_without_names_is_a_table_where_they_are_given(tmp_path: Path) -> None:
    path = written(tmp_path, "t.xlsx", made.xlsx([[7, "Ida", "lamp"], [8, "Olaf", "door"]]))
    found = load(path, header=["id", "name", "text"])
    assert [one.text for one in found.documents] == ["lamp", "door"]
    assert found.report.persons == ("name",)
    assert len(load(path, header=False).documents) == 2
    payers = ["Ida Berg", "Olaf Dal", "Siv Lund", "Bo Ek"]
    rows = [[n, payers[n % 4], "word"] for n in range(12)]
    path = written(tmp_path, "t.xlsx", made.xlsx(rows))
    assert load(path).report.persons == ("column 2",)


def test_without_a_header_a_column_is_no_unit(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--header NAME,NAME"):
        load(written(tmp_path, "t.csv", RECORDS), header=False, unit="column 2")


def edited(book: bytes, old: str, new: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(book)) as there, zipfile.ZipFile(out, "w") as changed:
        for name in there.namelist():
            content = there.read(name).decode()
            changed.writestr(name, content.replace(old, new) if "sheet1" in name else content)
    return out.getvalue()


def test_merged_cells_are_said_of_each_row_and_lost_values_are_named(tmp_path: Path) -> None:
    book = made.xlsx([["who", "what"], ["Ida", "one"], ["", "two"], ["Olaf", 3]])
    merged = '</sheetData><mergeCells count="1"><mergeCell ref="A2:A3"/></mergeCells>'
    path = written(tmp_path, "t.xlsx", edited(book, "</sheetData>", merged))
    assert [one.unit for one in load(path, unit="who").documents] == ["Ida", "Ida", "Olaf"]
    path = written(tmp_path, "f.xlsx", edited(book, "<v>3</v>", "<f>1+2</f><v/>"))
    assert [one.reason for one in load(path).report.skipped] == [UNSAVED]
    path = written(tmp_path, "f.xlsx", edited(book, "<v>3</v>", "<f>1+2</f><v>3</v>"))
    assert load(path).report.skipped == ()
