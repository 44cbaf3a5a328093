"""What the readers make of files of each kind, well-formed, locked, damaged and hostile."""

from __future__ import annotations

import email
import io
import json
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl_rag.conversion import Conversions, NotConvertedError
from dpicl_rag.conversion.confinement import ProcessLimits
from dpicl_rag.conversion.conversions import Outcome
from tests.support import made_files as made

pytestmark = made.needs_files
CFB = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@pytest.fixture(scope="module")
def conversions() -> Iterator[Conversions]:
    with Conversions() as those:
        yield those


def outcome(conversions: Conversions, kind: str, content: bytes) -> Outcome:
    with pytest.raises(NotConvertedError) as caught:
        conversions.convert(kind, content)
    return caught.value.outcome


@pytest.mark.parametrize("kind", made.PANDOC_KINDS)
def test_office_files_say_what_they_said(conversions: Conversions, kind: str) -> None:
    content = made.office(kind, "# Report\n\nAnn’s *pump* is über-clean.\n\n- one\n- two\n")
    told = conversions.convert(kind, content).decode()
    for words in ("Report", "Ann’s pump is über-clean.", "one", "two"):
        assert words in told.replace("  ", " ")
    assert conversions.convert(kind, content).decode() == told


def test_rtf_has_its_code_pages(conversions: Conversions) -> None:
    for content, told in (
        (rb"{\rtf1\ansi\ansicpg1252\uc1 Ann\u8217\'92s \u252\'fcber}", "Ann’s über"),
        (rb"{\rtf1\ansi Ann\u8217?s pump}", "Ann’s pump"),
        (rb"{\rtf1\ansi\ansicpg1251 \'cf\'f0\'e8}", "При"),
        (b"{\\rtf1 " + b"{" * 100_000 + b"}", ""),
    ):
        assert conversions.convert("rtf", content).decode() == told


@pytest.mark.parametrize("kind", made.PANDOC_KINDS)
@pytest.mark.parametrize("damage", ["cut", "words", "empty"])
def test_damaged_office_files_are_damaged(conversions: Conversions, kind: str, damage: str) -> None:
    whole = made.office(kind, "words")
    content = {"cut": whole[: len(whole) // 2], "words": b"words", "empty": b""}[damage]
    assert outcome(conversions, kind, content) is Outcome.DAMAGED


def test_pages_of_a_pdf(conversions: Conversions) -> None:
    assert conversions.convert("pdf", made.pdf("Dear (Ann)")) == b"Dear (Ann)"
    assert conversions.convert("pdf", made.pdf()) == b""
    assert outcome(conversions, "pdf", made.pdf("Dear Ann")[:300]) is Outcome.DAMAGED
    assert outcome(conversions, "pdf", b"") is Outcome.DAMAGED


def test_a_pdf_that_opens_without_its_password_is_read(conversions: Conversions) -> None:
    assert conversions.convert("pdf", made.locked_pdf("words", "")) == b"words"
    assert outcome(conversions, "pdf", made.locked_pdf("words", "secret")) is Outcome.PASSWORD


def test_a_pdf_runs_no_script(conversions: Conversions) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        for action in (
            f"<< /S /JavaScript /JS (app.launchURL\\('{address}'\\)) >>",
            f"<< /S /URI /URI ({address}) >>",
            "<< /S /Launch /F (/bin/sh) >>",
        ):
            content = made.pdf("words", catalog="/OpenAction 6 0 R", extra=action)
            assert conversions.convert("pdf", content) == b"words"
        with pytest.raises(TimeoutError):
            listening.accept()


@pytest.mark.parametrize("kind", ["docx", "odt"])
def test_entities_name_no_file_and_no_address(
    conversions: Conversions, tmp_path: Path, kind: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("words")
    make = {"docx": made.docx_of, "odt": made.odt_of}[kind]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        for place in (secret.as_uri(), f"http://127.0.0.1:{listening.getsockname()[1]}/"):
            content = make("before &x; after", made.entity(place))
            assert outcome(conversions, kind, content) is Outcome.DAMAGED
        with pytest.raises(TimeoutError):
            listening.accept()


def test_entities_that_grow_and_archives_that_swell(conversions: Conversions) -> None:
    content = made.docx_of("before &x; after", made.laughs())
    assert outcome(conversions, "docx", content) in (Outcome.DAMAGED, Outcome.MEMORY)
    swollen = made.swollen(made.office("docx", "words"))
    for kind in ("docx", "odt", "epub", "pptx", "sheet"):
        assert outcome(conversions, kind, swollen) is Outcome.UNPACKS


@pytest.mark.heavy
def test_an_archive_that_lies_about_its_size_takes_its_memory_alone(
    conversions: Conversions,
) -> None:
    content = bytearray(made.docx_of("z" * (64 * 2**20)))
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as there:
        size = there.getinfo("word/document.xml").file_size
    lie = (1_000).to_bytes(4, "little")
    content = content.replace(size.to_bytes(4, "little"), lie)
    assert outcome(conversions, "docx", bytes(content)) in (
        Outcome.DAMAGED,
        Outcome.MEMORY,
        Outcome.MUCH_TEXT,
    )
    assert conversions.convert("docx", made.docx_of("words")) == b"words\n"


def test_locked_office_files_name_their_password(conversions: Conversions) -> None:
    encrypted = made.compound({"EncryptedPackage": b"x" * 5_000})
    for kind in ("docx", "pptx"):
        assert outcome(conversions, kind, encrypted) is Outcome.PASSWORD
    assert outcome(conversions, "docx", made.compound({"WordDocument": b"x"})) is Outcome.DAMAGED
    manifest = "<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>"
    locked = made.edited(made.office("odt", "words"), {"META-INF/manifest.xml": manifest})
    assert outcome(conversions, "odt", locked) is Outcome.PASSWORD
    lent = '<enc:CipherReference URI="EPUB/text/ch001.xhtml"/>'
    book = made.office("epub", "words")
    locked = made.edited(book, {"META-INF/encryption.xml": lent})
    assert outcome(conversions, "epub", locked) is Outcome.PASSWORD
    fonts = '<enc:CipherReference URI="EPUB/fonts/a.otf"/>'
    assert b"words" in conversions.convert(
        "epub", made.edited(book, {"META-INF/encryption.xml": fonts})
    )


TABLE = [["who", "note", "n"], ["Ann", "a & b", 5.0], ["", "", ""], ["Bo", True, 2.5]]


def test_sheets_are_lines_or_rows(conversions: Conversions) -> None:
    book = made.xlsx(TABLE, [["x"], ["y"]])
    assert conversions.convert("sheet", book).decode() == (
        "who | note | n\nAnn | a & b | 5\nBo | TRUE | 2.5\n\nx\ny"
    )
    assert json.loads(conversions.convert("rows", book)) == {
        "sheets": [
            [[1, ["who", "note", "n"]], [2, ["Ann", "a & b", "5"]], [4, ["Bo", "TRUE", "2.5"]]],
            [[1, ["x"]], [2, ["y"]]],
        ],
        "unsaved": False,
    }
    assert conversions.convert("sheet", made.ods([["who", "note"], ["Ann", "yes"]])) == (
        b"who | note\nAnn | yes"
    )


def test_a_binary_workbook_is_read(conversions: Conversions) -> None:
    book = made.xlsb([["who", "note"], ["Ann", 5.0], ["Bo", "yes"]])
    assert conversions.convert("sheet", book) == b"who | note\nAnn | 5\nBo | yes"


def test_a_chart_on_a_sheet_of_its_own_says_nothing(conversions: Conversions) -> None:
    book = made.xlsx([["words"]], [["more"]])
    with zipfile.ZipFile(io.BytesIO(book)) as there:
        links = there.read("xl/_rels/workbook.xml.rels").decode()
    charted = links.replace(
        '/worksheet" Target="worksheets/s', '/chartsheet" Target="chartsheets/s', 1
    )
    chart = '<chartsheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"/>'
    changed = {"xl/_rels/workbook.xml.rels": charted, "xl/chartsheets/sheet1.xml": chart}
    # A sheet keeps its number.
    assert json.loads(conversions.convert("rows", made.edited(book, changed)))["sheets"] == [
        [],
        [[1, ["more"]]],
    ]


def test_damaged_and_locked_sheets(conversions: Conversions) -> None:
    assert outcome(conversions, "sheet", made.xlsx(TABLE)[:-100]) is Outcome.DAMAGED
    assert outcome(conversions, "rows", b"words") is Outcome.DAMAGED
    locked = made.compound({"EncryptedPackage": b"x" * 5_000, "EncryptionInfo": b"x" * 5_000})
    assert outcome(conversions, "sheet", locked) is Outcome.PASSWORD


def test_a_sheet_whose_tags_do_not_close_takes_no_time() -> None:
    whole = made.ods([["who", "note"]])
    with zipfile.ZipFile(io.BytesIO(whole)) as there:
        content = there.read("content.xml")
    damaged = made.edited(whole, {"content.xml": content.replace(b"</table:table>", b"</table")})
    with Conversions(ProcessLimits(cpu_seconds=2)) as conversions:
        assert b"who" in conversions.convert("sheet", whole)
        assert conversions.convert_all("rows", [damaged]) == [Outcome.DAMAGED]


def test_a_sheet_with_one_cell_far_away_costs_itself(conversions: Conversions) -> None:
    book = made.xlsx([["here"]])
    with zipfile.ZipFile(io.BytesIO(book)) as there:
        sheet = there.read("xl/worksheets/sheet1.xml").decode()
    far = sheet.replace(
        "</sheetData>", '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    )
    content = made.edited(book, {"xl/worksheets/sheet1.xml": far})
    assert outcome(conversions, "sheet", content) is not Outcome.CONVERTED
    assert conversions.convert("sheet", book) == b"here"


def test_outlook_messages_become_mail(conversions: Conversions) -> None:
    content = made.msg(
        {"0037": "Plans", "1000": "Dear Bo,\r\nyes.", "0C1A": "Ann Lee", "5D01": "ann@b.org",
         "1035": "<1@b>", "1042": "<0@b>", "1013": b"<p>Dear <b>Bo</b>, yes.</p>"},
        numbers={0x39: 133_500_000_000_000_000, 0x3FDE: 65001},
        recipients=[{"3001": "Bo", "39FE": "bo@b.org"}],
        attachments=[{"3701": made.pdf("words"), "3707": "a b.pdf"}, {"3001": "a message"}],
    )  # fmt: skip
    told = conversions.convert("msg", content)
    assert conversions.convert("msg", content) == told
    message = email.message_from_bytes(told)
    kept = {name: message[name] for name in ("Subject", "From", "To", "Date", "Message-ID")}
    assert kept == {
        "Subject": "Plans",
        "From": "Ann Lee <ann@b.org>",
        "To": "Bo <bo@b.org>",
        "Date": "Wed, 17 Jan 2024 21:20:00 +0000",
        "Message-ID": "<1@b>",
    }
    assert message["In-Reply-To"] == "<0@b>"
    parts = [part for part in message.walk() if not part.is_multipart()]
    assert [part.get_content_type() for part in parts] == [
        "text/plain",
        "text/html",
        "application/octet-stream",
        "text/plain",  # of the message within
    ]
    assert parts[0].get_payload(decode=True) == b"Dear Bo,\nyes."
    assert parts[2].get_filename() == "a b.pdf"
    assert b"words" in parts[2].get_payload(decode=True)  # type: ignore[operator]


def test_headers_that_came_over_the_wire_are_kept(conversions: Conversions) -> None:
    wire = (
        "Received: by x\r\nFrom: ann@b.org\r\nSubject: As it came\r\nContent-Type: text/x; "
        "boundary=y\r\nMIME-Version: 1.0\r\nReferences: <0@b>\r\n\r\n"
    )
    content = made.msg({"007D": wire, "0037": "Another", "1000": "words", "5D01": "c@b.org"})
    message = email.message_from_bytes(conversions.convert("msg", content))
    assert (message["Subject"], message["From"]) == ("As it came", "ann@b.org")
    assert message["References"] == "<0@b>"
    assert message.get_content_type() == "text/plain"
    assert message.get_all("Subject") == ["As it came"]


def test_headers_of_a_message_forge_no_others(conversions: Conversions) -> None:
    content = made.msg({"0037": "a\r\nBcc: x@y.z\r\n\r\nbody", "1000": "words"})
    message = email.message_from_bytes(conversions.convert("msg", content))
    assert message["Subject"] == "a Bcc: x@y.z body"
    assert message["Bcc"] is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("content", [b"", b"words", CFB, CFB + bytes(2_000)])
def test_damaged_messages(conversions: Conversions, content: bytes) -> None:
    assert outcome(conversions, "msg", content) is Outcome.DAMAGED


@pytest.mark.heavy
def test_what_a_file_says_depends_on_no_other(conversions: Conversions) -> None:
    files = [(kind, made.office(kind, "words of Ann")) for kind in made.PANDOC_KINDS]
    files += [
        ("pdf", made.pdf("words")),
        ("pdf", made.locked_pdf("words", "secret")),
        ("sheet", made.xlsx(TABLE)),
        ("msg", made.msg({"1000": "words"}, attachments=[{"3701": b"x"}])),
        ("docx", b"damaged"),
    ]

    def told(those: Conversions, kind: str, content: bytes) -> bytes | str:
        try:
            return those.convert(kind, content)
        except NotConvertedError as error:
            return str(error)

    alone = []
    for kind, content in files:
        with Conversions() as fresh:
            alone.append(told(fresh, kind, content))
    assert [told(conversions, *one) for one in files] == alone
    assert [told(conversions, *one) for one in reversed(files)] == alone[::-1]
