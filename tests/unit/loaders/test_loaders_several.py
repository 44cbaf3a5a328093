"""Several paths are one load; files that are not read name the way out."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.loaders import load


def mail(number: int, answers: str = "") -> str:
    reply = f"In-Reply-To: {answers}\n" if answers else ""
    return (
        f"Message-ID: <{number}@b>\n{reply}From: ann@b.org\nSubject: S{number}\n\nMail {number}\n"
    )


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    (tmp_path / "1.eml").write_text(mail(1))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "2.eml").write_text(mail(2, "<1@b>"))
    (tmp_path / "rows.csv").write_text("customer,text\nAnn,same\n")
    (tmp_path / "more.csv").write_text("customer,text\nAnn,same\n,\n")
    return [tmp_path / name for name in ("1.eml", "sub", "rows.csv", "more.csv")]


def test_threads_and_units_go_over_all_paths(paths: list[Path]) -> None:
    documents = load(paths).documents
    one, other, row, same = (document.unit for document in documents)
    assert one == other
    assert row != same  # equal rows are told apart, as in one file


def test_the_order_is_that_of_the_documents(paths: list[Path]) -> None:
    wanted = sorted((d.text, d.unit) for d in load(paths).documents)
    for order in itertools.permutations(paths):
        found = load(list(order)).documents
        assert sorted((d.text, d.unit) for d in found) == wanted
        assert found[0] in load(order[0]).documents


def test_several_are_what_a_folder_of_them_is(paths: list[Path], tmp_path: Path) -> None:
    wanted = sorted((d.text, d.unit) for d in load(tmp_path).documents)
    assert sorted((d.text, d.unit) for d in load(paths).documents) == wanted


def test_a_position_names_its_path(paths: list[Path]) -> None:
    (skipped,) = load(paths).report.skipped
    assert skipped.position == f"{paths[3]}: row 2 (line 3)"
    (paths[0].parent / "empty.txt").write_text("")
    found = load([paths[1], paths[0].parent / "empty.txt"])
    assert found.report.skipped[0].position == str(paths[0].parent / "empty.txt")


def test_a_path_that_is_named_twice_is_refused(paths: list[Path], tmp_path: Path) -> None:
    for twice in ([paths[0], paths[0]], [paths[1] / "2.eml", paths[1]], [paths[2], tmp_path]):
        with pytest.raises(LoaderError, match="named twice"):
            load(twice)


@pytest.mark.parametrize("wrong", [[3], 3, None, [None], [], b"a", [["a"]], [{"text": "a"}], {1}])
def test_what_is_no_path_is_one_sentence(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="path") as caught:
        load(wrong)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "way"),
    [("a.doc", "save it as .docx"), ("a.numbers", "export it as CSV"), ("a.pst", "mbox"),
     ("a.parquet", "export it as CSV"), ("a.zip", "unpack it"), ("a.ppt", "save it as .pptx"),
     ("a.pages", "save it as .docx")],
)  # fmt: skip
def test_a_kind_that_is_not_read_names_the_way_out(tmp_path: Path, name: str, way: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04\x00")
    with pytest.raises(LoaderError, match=way):
        load(tmp_path / name)
    (item,) = load(tmp_path).report.skipped
    assert way in item.reason
