"""What a load says of itself: the unit, columns that it read and did not, those of persons."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpicl_rag.languages.person_names import is_person
from dpicl_rag.loaders import LoadReport, load, load_images
from dpicl_rag.loaders.columns import MOST

TICKETS = "id,customer,subject,queue,body\n1,Ann,Hi,a,It broke\n2,Bo,Yo,b,It works\n"
MAIL = b"Message-ID: <1@b>\nFrom: ann@b.org\nSubject: Plans\n\nwords\n"
DATED = b"Date: 1 Jan 2026 10:00:00 +0000\n"


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    path = tmp_path / "tickets.csv"
    path.write_text(TICKETS)
    return path


def test_a_table_tells_unit_text_and_what_is_not_read(tickets: Path) -> None:
    report = load(tickets).report
    assert report.summary == ("A unit is: one row. Text: body. Not read: customer, subject, queue.")
    assert report.persons == ("customer",)


def test_a_chosen_unit_is_named_and_is_no_other_person(tickets: Path) -> None:
    report = load(tickets, unit="customer").report
    assert report.summary == "A unit is: the same customer. Text: body. Not read: subject, queue."
    assert report.persons == ()


def test_without_a_text_column_all_of_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("patient,age\nAnn,41\n")
    report = load(tmp_path / "t.csv").report
    assert report.summary == "A unit is: one row. Text: patient, age."
    assert report.persons == ("patient",)


def test_rows_of_json_count_by_the_columns_seen(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n{"text": "b", "User ID": 7}\n')
    report = load(tmp_path / "t.jsonl").report
    assert (report.text, report.unread, report.persons) == (("text",), ("User ID",), ("User ID",))


@pytest.mark.parametrize(
    ("unit", "words"),
    [(None, "one email thread"), ("document", "one email"), ("sender", "the same sender")],
)
def test_mail_has_no_columns(tmp_path: Path, unit: str | None, words: str) -> None:
    (tmp_path / "a.eml").write_bytes(MAIL)
    assert load(tmp_path / "a.eml", unit=unit).report.summary == f"A unit is: {words}."


def test_texts_and_nothing_are_documents(tmp_path: Path) -> None:
    assert load(tmp_path).report.summary == "A unit is: one document."
    (tmp_path / "a.txt").write_text("words")
    assert load(tmp_path).report == LoadReport(1, 1, (), unit="one document")


def test_many_columns_are_cut(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(50)]
    (tmp_path / "t.csv").write_text(",".join(["text", *names]) + "\n" + ",".join("x" * 51) + "\n")
    assert load(tmp_path / "t.csv").report.unread == tuple(names[:MOST])


@pytest.mark.parametrize(
    "name",
    ["customer", "Customer_ID", "patientId", "USER", "user name", "E-mail", "email address",
     "phone", "first name", "Account No", "sender", "author", "member_nr"],
)  # fmt: skip
def test_names_of_persons(name: str) -> None:
    assert is_person(name)


@pytest.mark.parametrize(
    "name", ["customers_seen", "product_name", "user_agent", "emailed", "id", "", "no", "personal"]
)
def test_other_names(name: str) -> None:
    assert not is_person(name)


def test_a_name_with_line_ends_is_one_line(tmp_path: Path) -> None:
    name = "a.csv\n  b.csv: damaged\r\u2028\x1b[2J"
    (tmp_path / name).write_bytes(b"\x00\x01")
    for mail in ("c\nd.eml", "e.eml"):
        (tmp_path / mail).write_bytes(b"From: ann@b.org\nSubject: Re: Plans\n" + DATED + b"\nwords")
    (tmp_path / "label").mkdir()
    (tmp_path / "label" / name).write_bytes(b"\x00\x01")
    report = load(tmp_path).report
    told = [one.position for one in (*report.skipped, *load_images(tmp_path).report.skipped)]
    told += [place for pair in report.joined for place in pair]
    assert len(told) > 5
    assert all(one.isprintable() for one in told)
    assert r"a.csv\n  b.csv: damaged\r\u2028\x1b[2J" in told
    assert r"c\nd.eml" in told
