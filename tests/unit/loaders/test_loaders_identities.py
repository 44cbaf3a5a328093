"""Who a record is from: one person is one unit, and two are never one."""

import gzip
import json
import os
import unicodedata
from pathlib import Path

import pytest

from dpicl_rag.documents import Document
from dpicl_rag.loaders import load
from dpicl_rag.loaders.identities import key_form
from tests.unit.loaders.neighbours import roots

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "müller") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (DECOMPOSED, COMPOSED),
        ("Ann\u00a0Lee", "Ann Lee"),
        ("  Ann \t\n Lee\u2003", "Ann Lee"),
        ("5.0", "5"),
        ("5.00", "5"),
        ("-5.0", "-5"),
        ("-0.0", "0"),
        ("1e+16", "10000000000000000"),
        ("1.5e+16", "15000000000000000"),
        ("9007199254740993.0", "9007199254740993"),
    ],
)
def test_one_form_of_a_name(value: str, form: str) -> None:
    assert key_form(value) == key_form(form) == form


@pytest.mark.parametrize(
    "value", ["007", "007.0", "5.5", "5.", "+5", "1e3", "1E16", "5,0", "٥.0", "ANN", "x\u200by", ""]
)
def test_what_is_left_as_it_is(value: str) -> None:
    assert key_form(value) == value


@pytest.mark.parametrize("options", [{"unit": "id"}, {}, {"unit": "document"}])
def test_rows_of_one_person_are_one_unit(tmp_path: Path, options: dict[str, str]) -> None:
    names = [COMPOSED, DECOMPOSED, "5", "5.0", "Ann Lee", "Ann\u00a0Lee"]
    (tmp_path / "a.csv").write_text("id,text\n" + "".join(f"{name},x\n" for name in names))
    numbers = '{"id": 5, "text": "x"}\n{"id": 5.0, "text": "x"}\n{"id": "5", "text": "x"}\n'
    (tmp_path / "b.jsonl").write_text(numbers)
    units = [document.unit for document in load(tmp_path, **options).documents]  # type: ignore[arg-type]
    assert units[0] == units[1]
    assert units[2] == units[3] == units[6] == units[7] == units[8]
    assert units[4] == units[5]
    assert len(set(units)) == 3


@pytest.mark.parametrize("options", [{"unit": "id"}, {}, {"unit": "document"}])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_bytes_that_are_no_characters_are_two_people(
    tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    row = b'{"id": "m%sller", "text": "x"}\n' if name == "a.jsonl" else b"m%sller,x\n"
    rows = [row % byte for byte in (b"\x81", b"\x8d", b"\xef\xbf\xbd", b"\x81", b"\x00" * 0)]
    (tmp_path / name).write_bytes((b"id,text\n" if name == "a.csv" else b"") + b"".join(rows))
    documents = load(tmp_path, **options).documents  # type: ignore[arg-type]
    units = [document.unit for document in documents]
    assert documents[0].metadata == documents[1].metadata
    assert units[0] == units[3]
    assert len(set(units)) == 4
    for unit in units:
        unit.encode()


def test_rows_without_a_key_that_read_the_same_are_two_people(tmp_path: Path) -> None:
    units = []
    for byte in (b"\x81", b"\x8d"):
        (tmp_path / "a.csv").write_bytes(b"text\nm%sller\n" % byte)
        units += [document.unit for document in load(tmp_path).documents]
    assert len(set(units)) == 2


def test_long_numbers_are_not_rounded(tmp_path: Path) -> None:
    rows = [f'{{"id": {2**53 + more}.0, "text": "x"}}\n' for more in range(4)]
    (tmp_path / "a.jsonl").write_text("".join(rows))
    assert len({document.unit for document in load(tmp_path).documents}) == 4


def test_surrogates_that_were_written_are_two_people(tmp_path: Path) -> None:
    rows = [json.dumps({"id": f"x{letter}", "text": "x"}) for letter in "\ud800\ud801\udc81"]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    assert len({document.unit for document in load(tmp_path).documents}) == 3


@pytest.mark.parametrize("unit", ["sender", "X-Patient"])
def test_headers_that_are_no_characters_are_two_people(tmp_path: Path, unit: str) -> None:
    for number, name in enumerate([b"\x81", b"\x8d", b"=?utf-8?q?=81?=", b"=?utf-8?q?=8D?="]):
        head = b"From: m%b@x.org\nX-Patient: m%b\n\nx" % (name, name)
        (tmp_path / f"{number}.eml").write_bytes(head)
    documents = load(tmp_path, unit=unit).documents
    assert len({document.unit for document in documents}) == 4


@pytest.mark.parametrize("unit", [None, "file"])
def test_names_of_files_are_bytes(tmp_path: Path, unit: str | None) -> None:
    for name in ("müller", "möller"):
        path = os.path.join(os.fsencode(tmp_path), name.encode("latin-1") + b".txt")
        with open(path, "wb") as file:
            file.write(b"the same words")
    for name in (b"m\x81ller", b"m\x8dller"):
        with open(os.path.join(os.fsencode(tmp_path), name + b".txt"), "wb") as file:
            file.write(b"the same words")
    documents = load(tmp_path, unit=unit).documents
    assert len({document.unit for document in documents}) == 4
    for document in documents:
        (document.unit + document.metadata["file"]).encode()


def one(documents: list[Document]) -> bool:
    """Whether documents are one unit, by their names and keys."""
    return len(set(roots(documents))) == 1


def test_a_text_is_one_unit_wherever_it_is_loaded_from(tmp_path: Path) -> None:
    folder = tmp_path / "sub" / "deep"
    folder.mkdir(parents=True)
    path = folder / "note.txt"
    path.write_text("some words")
    found = [load(place).documents[0] for place in (tmp_path, folder.parent, folder, path)]
    assert len({document.unit for document in found}) == 1
    assert len({document.origin.record for document in found}) == 1
    packed = folder / "note.txt.gz"
    packed.write_bytes(gzip.compress(b"some words"))
    found += load(folder).documents
    path.unlink()
    found += load(folder).documents
    packed.rename(folder / "renamed.txt.gz")
    found += load(folder).documents
    (folder / "renamed.txt").write_text("edited")
    found += load(folder / "renamed.txt").documents
    assert one(found)
    assert not one([found[0], found[-1]])  # it is known by what lay between


def test_equal_texts_are_units_of_their_own_that_do_not_depend_on_others(tmp_path: Path) -> None:
    for name in "bcd":
        (tmp_path / f"{name}.txt").write_text("the same words")
    before = load(tmp_path).documents
    assert len(set(roots(before))) == 3
    (tmp_path / "a.txt").write_text("the same words")
    after = load(tmp_path).documents
    assert len(set(roots(after))) == 4
    assert [document.unit for document in after[1:]] == [document.unit for document in before]


def test_files_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.txt").write_text(f"in {name}")
    both = [load(tmp_path / name).documents[0] for name in "ab"]
    assert not one(both)
    assert not one(load(tmp_path).documents)
