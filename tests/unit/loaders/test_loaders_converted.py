"""PDF, office, book and Outlook files in a load: a folder of all kinds, hostile ones among them."""

from __future__ import annotations

import gzip
import os
from email.message import EmailMessage
from pathlib import Path

import pytest

from dpicl_rag.conversion import Conversions
from dpicl_rag.conversion.confinement import ProcessLimits
from dpicl_rag.conversion.conversions import REASONS, Outcome
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import Skipped, load, loader
from dpicl_rag.loaders.reasons import (
    BINARY,
    EMPTY,
    FILE_TOO_LARGE,
    LINK,
    MESSAGE_WITHIN,
    NO_TEXT_FIELD,
    NOT_CONVERTED,
    TOO_LARGE,
    TOO_MANY_ATTACHMENTS,
    TOO_MANY_FIELDS,
    UNSUPPORTED,
)
from dpicl_rag.loaders.text_files import NO_TEXT
from tests.support import made_files as made

MAIL = "Message-ID: <1@b>\nFrom: ann@b.org\nSubject: Plans\n\nwords of a mail\n"
MIB = 2**20
DAMAGED, LOCKED = REASONS[Outcome.DAMAGED], REASONS[Outcome.PASSWORD]


def good() -> dict[str, bytes]:
    """Files that have a text, each the words ``words of`` and its name."""
    table = [["id", "text"], ["1", "words of a.xlsx"]]
    outlook = made.msg({"0037": "Plans", "1000": "words of a.msg", "5D01": "ann@b.org"})
    return {
        **{f"a.{kind}": made.office(kind, f"words of a.{kind}") for kind in made.PANDOC_KINDS},
        "a.pdf": made.pdf("words of a.pdf"),
        "open.pdf": made.locked_pdf("words of open.pdf", ""),
        "script.pdf": made.pdf(
            "words of script.pdf",
            catalog="/OpenAction 6 0 R",
            extra="<< /S /JavaScript /JS (app.alert\\(1\\)) >>",
        ),
        "report": made.pdf("words of report"),  # known by how it begins
        "letter": b"{\\rtf1 words of letter}",
        "packed.docx.gz": gzip.compress(made.office("docx", "words of packed.docx.gz")),
        "a.docm": made.office("docx", "words of a.docm"),
        "a.xlsx": made.xlsx(table),
        "a.ods": made.ods([["words of a.ods"]]),
        "a.msg": outlook,
        "a.eml": MAIL.replace("words of a mail", "words of a.eml").encode(),
        "a.md": b"# Title\n\nwords of a.md\n",
        "a.txt": b"words of a.txt",
        "latin.txt": b"words of latin.txt, na\xefve",
        "noisy.log": b"words of noisy.log \x1b[0m\x07" * 2,
        "remote.html": b"<img src='http://127.0.0.1:9/x.png'><p>words of remote.html",
        "entity.html": b"<!DOCTYPE d [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><svg><text>&x;"
        b"</text></svg><p>words of entity.html",
    }


def bad() -> dict[str, tuple[bytes, str]]:
    """Files that have none, and why."""
    docx = made.office("docx", "words")
    return {
        "locked.pdf": (made.locked_pdf("words", "secret"), LOCKED),
        "scan.pdf": (made.pdf(), NO_TEXT),
        "cut.pdf": (made.pdf("words")[:300], DAMAGED),
        "cut.docx": (docx[:-900], DAMAGED),
        "cut.pptx": (made.office("pptx", "words")[:-900], DAMAGED),
        "locked.docx": (made.compound({"EncryptedPackage": b"x" * 5_000}), LOCKED),
        "bomb.docx": (made.swollen(docx), REASONS[Outcome.UNPACKS]),
        "entity.docx": (made.docx_of("&x;", made.entity("file:///etc/passwd")), DAMAGED),
        "entity.odt": (made.odt_of("&x;", made.entity("file:///etc/passwd")), DAMAGED),
        "laughs.docx": (made.docx_of("&x;", made.laughs()), DAMAGED),
        "nested.docx": (made.nested_archive(9), DAMAGED),
        "nested.zip": (made.nested_archive(9), f"{UNSUPPORTED}; unpack it"),
        "cut.xlsx": (made.xlsx([["a"]])[:-99], DAMAGED),
        "empty.xlsx": (made.xlsx([]), NO_TEXT),
        "cut.msg": (made.msg({"1000": "words"})[:700], DAMAGED),
        "text.epub": (b"words", DAMAGED),
        "empty.docx": (b"", DAMAGED),
        "old.doc": (made.compound({"WordDocument": b"x"}), f"{UNSUPPORTED}; save it as .docx "
                    "or text"),
        "page.txt": (made.pdf("words"), BINARY),
        "page.html": (made.pdf("words"), BINARY),
        "rich.md": (b"{\\rtf1 words}", BINARY),
        "table.csv": (made.xlsx([["a", "b"]]), BINARY),
        "noise.txt": (bytes(range(1, 256)) * 4, BINARY),
        "picture.bin": (b"\x89PNG\r\n\x1a\n rest", UNSUPPORTED),
    }  # fmt: skip


@pytest.mark.heavy
@made.needs_files
def test_a_folder_of_all_kinds_names_each_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    files, reasons = good(), bad()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    for name, (content, _) in reasons.items():
        (folder / name).write_bytes(content)
    for name in ("huge.pdf", "huge.txt"):
        with (folder / name).open("wb") as file:
            file.truncate(500 * MIB)
    (tmp_path / "secret.pdf").write_bytes(made.pdf("words"))
    (folder / "link.pdf").symlink_to(tmp_path / "secret.pdf")
    os.mkfifo(folder / "pipe.pdf")
    assert len(files) + len(reasons) >= 40
    found = load(folder)
    told = {item.position: item.reason for item in found.report.skipped}
    assert told == {
        **{name: reason for name, (_, reason) in reasons.items()},
        "huge.pdf": FILE_TOO_LARGE,
        "huge.txt": TOO_LARGE,
        "link.pdf": LINK,
        "pipe.pdf": UNSUPPORTED,
    }
    texts = [document.text for document in found.documents]
    for name in files:
        (one,) = [text for text in texts if f"words of {name}" in text]
        assert "root:" not in one
        assert "\x1b" not in one or name == "noisy.log"
    assert found.report.loaded == len(files) == len({one.unit for one in found.documents})
    assert found.report.read == len(files) + len(told)


@made.needs_files
def test_one_file_is_the_same_unit_wherever_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(made.pdf("words"))
    (one,) = load(tmp_path).documents
    (alone,) = load(tmp_path / "a.pdf").documents
    assert (one.text, one.metadata) == ("words", {"file": "a.pdf"})
    assert alone == one
    (packed,) = load(
        _written(tmp_path / "b" / "a.pdf.gz", gzip.compress(made.pdf("words")))
    ).documents
    assert packed.origin.keys == one.origin.keys  # by content


def _written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def test_without_the_extra_each_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpicl_rag.loaders.text_files.is_installed", lambda kind: False)
    names = ["a.docx", "a.epub", "a.msg", "a.odt", "a.pdf", "a.pptx", "a.rtf", "a.xlsx"]
    for name in names:
        (tmp_path / name).write_bytes(b"%PDF-1.4 words")
    mail = EmailMessage()
    mail["Subject"] = "Plans"
    mail.set_content("words")
    mail.add_attachment(b"%PDF-1.4 words", maintype="application", subtype="pdf", filename="a.pdf")
    (tmp_path / "a.eml").write_bytes(mail.as_bytes())
    found = load(tmp_path)
    assert [document.metadata["subject"] for document in found.documents] == ["Plans"]
    reasons = {item.position: item.reason for item in found.report.skipped}
    assert reasons == dict.fromkeys([*names, "a.eml, attachment 1"], NOT_CONVERTED)
    with pytest.raises(LoaderError, match="pip install 'dpicl-rag\\[files\\]'"):
        load(tmp_path / "a.pdf")


# ---- attachments ----


def _mail(*attachments: tuple[str, str, bytes]) -> bytes:
    mail = EmailMessage()
    mail["Message-ID"], mail["From"], mail["Subject"] = "<1@b>", "ann@b.org", "Plans"
    mail.set_content("words of the mail")
    for name, kind, content in attachments:
        main, _, sub = kind.partition("/")
        mail.add_attachment(content, maintype=main, subtype=sub, filename=name)
    return mail.as_bytes()


@made.needs_files
@pytest.mark.parametrize("unit", [None, "sender", "document"])
def test_attachments_belong_to_the_unit_of_their_mail(tmp_path: Path, unit: str | None) -> None:
    stream = "application/octet-stream"
    inner = EmailMessage()
    inner.set_content("hidden-words")
    raw = _mail(
        ("Report ü.pdf", stream, made.pdf("words of a page")),
        ("scan.pdf", stream, made.pdf()),
        ("table.xlsx", stream, made.xlsx([["a", "b"], ["c", "d"]])),
        ("notes.txt", "text/plain", b"words of a text"),
        ("page.html", "text/html", b"<p>words of markup"),
        ("noise.txt", "text/plain", bytes(64)),
        ("a.zip", "application/zip", made.nested_archive(2)),
        ("a.msg", stream, made.msg({"1000": "hidden-words"})),
        ("nothing.txt", "text/plain", b" "),
        ("nameless", "application/pdf", made.pdf("words by type")),
    )
    (tmp_path / "a.eml").write_bytes(raw)
    found = load(tmp_path, unit=unit)
    (document,) = found.documents
    assert document.text.split("\n\n", 1)[1] == "\n\n".join(
        [
            "words of the mail",
            "Attachment Report ü.pdf:",
            "words of a page",
            "Attachment table.xlsx:",
            "a | b\nc | d",
            "Attachment notes.txt:",
            "words of a text",
            "Attachment page.html:",
            "words of markup",
            "Attachment nameless:",
            "words by type",
        ]
    )
    assert [(item.position, item.reason) for item in found.report.skipped] == [
        ("a.eml, attachment 2", NO_TEXT),
        ("a.eml, attachment 6", BINARY),
        ("a.eml, attachment 7", f"{UNSUPPORTED}; unpack it"),
        ("a.eml, attachment 8", MESSAGE_WITHIN),
        ("a.eml, attachment 9", EMPTY),
    ]
    assert found.report.read == 6


def test_pictures_within_a_text_and_signatures_are_no_attachments(tmp_path: Path) -> None:
    mail = EmailMessage()
    mail["Subject"] = "Plans"
    mail.set_content("words")
    mail.add_attachment(b"x", maintype="image", subtype="png", filename="a.png", cid="<1@x>")
    mail.add_attachment(
        b"x", maintype="image", subtype="png", filename="b.png", disposition="inline"
    )
    mail.add_attachment(b"x", maintype="application", subtype="pkcs7-signature", filename="s.p7s")
    mail.add_attachment(b"x", maintype="image", subtype="png", filename="photo.png")
    (tmp_path / "a.eml").write_bytes(mail.as_bytes())
    assert load(tmp_path).report.skipped == (Skipped("a.eml, attachment 1", UNSUPPORTED),)


def test_a_mail_with_many_attachments(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(_mail(*[("a.txt", "text/plain", b"words")] * 22))
    found = load(tmp_path)
    assert found.documents[0].text.count("Attachment a.txt:") == 20
    assert {item.reason for item in found.report.skipped} == {TOO_MANY_ATTACHMENTS}


@made.needs_files
def test_an_outlook_message_is_in_the_thread_of_its_mail(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(MAIL.encode())
    outlook = made.msg(
        {"0037": "Re: Plans", "1000": "yes, of course", "5D01": "bo@b.org", "1042": "<1@b>"},
        attachments=[{"3701": made.pdf("words of a page"), "3707": "a.pdf"}],
    )
    (tmp_path / "b.msg").write_bytes(outlook)
    found = load(tmp_path)
    assert len({document.unit for document in found.documents}) == 1
    assert "words of a page" in found.documents[1].text
    assert found.documents[1].metadata["sender"] == "bo@b.org"


# ---- spreadsheets ----

SHEETS = made.xlsx(
    [
        ["id", "who", "note"],
        ["1", "Ann", "yes"],
        ["", "", ""],
        ["2", "Bo", ""],
        ["3", "C", "d", "e"],
    ],
    [["who", "note"], ["Ann", "again"]],
    [[]],
)


@made.needs_files
def test_a_spreadsheet_is_a_document_or_its_rows(tmp_path: Path) -> None:
    path = _written(tmp_path / "a.xlsx", SHEETS)
    (whole,) = load(path).documents
    assert "1 | Ann | yes" in whole.text
    found = load(path, text_field="note")
    assert [document.text for document in found.documents] == ["yes", "again"]
    assert found.report.skipped == (
        Skipped("sheet 1, row 4", NO_TEXT_FIELD),
        Skipped("sheet 1, row 5", TOO_MANY_FIELDS),
    )
    assert found.documents[0].metadata == {"id": "1", "who": "Ann", "note": "yes"}
    assert found.report.summary == "A unit is: one row. Text: note. Not read: who."
    (tmp_path / "a.csv").write_text("id,who,note\n1,Ann,yes\n")
    (row,) = load(tmp_path / "a.csv", text_field="note").documents
    assert (row.unit, row.metadata) == (found.documents[0].unit, found.documents[0].metadata)


@made.needs_files
@pytest.mark.parametrize("options", [{"unit": "who"}, {"key_field": "who"}])
def test_a_person_in_two_sheets_is_one_unit(tmp_path: Path, options: dict[str, str]) -> None:
    _written(tmp_path / "a.xlsx", SHEETS)
    found = load(tmp_path, **options)  # type: ignore[arg-type]
    ann = [one.unit for one in found.documents if one.metadata["who"] == "Ann"]
    assert len(ann) == 2
    assert len(set(ann)) == 1
    assert [one.position for one in found.report.skipped] == ["a.xlsx: sheet 1, row 5"]


@made.needs_files
def test_a_damaged_spreadsheet_costs_itself(tmp_path: Path) -> None:
    _written(tmp_path / "a.xlsx", SHEETS[:-100])
    _written(tmp_path / "b.xlsx", SHEETS)
    found = load(tmp_path, text_field="note")
    assert len(found.documents) == 2
    assert found.report.skipped[0] == Skipped("a.xlsx", DAMAGED)
    with pytest.raises(LoaderError, match="damaged"):
        load(tmp_path / "a.xlsx", text_field="note")


# ---- planted converters ----


@pytest.mark.parametrize("fault", ["sleep", "exit", "fill", "eat", "connect", "crash", "run"])
def test_a_planted_converter_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    class Planted(Conversions):
        """Every ``odt`` goes to the fault."""

        def __init__(self) -> None:
            limits = ProcessLimits(cpu_seconds=1, seconds=1, memory=2**29)
            super().__init__(limits, "tests.support.planted_readers")

        def convert(self, kind: str, content: bytes) -> bytes:
            return super().convert(fault if kind == "odt" else "echo", content)

    monkeypatch.setattr(loader, "Conversions", Planted)
    monkeypatch.setattr("dpicl_rag.loaders.text_files.is_installed", lambda kind: True)
    for name in ("a.docx", "b.odt", "c.docx"):
        (tmp_path / name).write_bytes(b"1")
    found = load(tmp_path)
    assert [document.metadata["file"] for document in found.documents] == ["a.docx", "c.docx"]
    (item,) = found.report.skipped
    assert item.position == "b.odt"
    assert item.reason in REASONS.values()


def test_a_folder_without_such_files_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a child was started")

    monkeypatch.setattr("subprocess.Popen", refuse)
    (tmp_path / "a.txt").write_text("words")
    assert load(tmp_path).report.loaded == 1


def test_where_nothing_forks_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "fork")
    monkeypatch.setattr("dpicl_rag.loaders.text_files.is_installed", lambda kind: True)
    (tmp_path / "a.pdf").write_bytes(made.pdf("words"))
    (item,) = load(tmp_path).report.skipped
    assert item.reason.startswith("read on Linux and macOS only")
