"""Readers of files, in the child process: PDF, RTF, office files, books, Outlook's messages.

All five libraries are written in languages that keep to their memory (Python, Haskell, Rust), and
none of them runs what a file asks for: scripts, macros, links and remote pictures stay as they are.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from xml.parsers import expat

from dpicl_rag.conversion.child import FileReader
from dpicl_rag.conversion.confinement import MAX_UNPACKED_BYTES
from dpicl_rag.conversion.conversions import (
    PANDOC_KINDS,
    NotConvertedError,
    Outcome,
    is_installed,
    pandoc,
    row_in_words,
)

READERS: dict[str, FileReader] = {}
"""By the name of a kind."""

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")  # [MS-OFFCRYPTO] 2.3.4.4
# A book may list its fonts there; where it lists texts, these are locked.
_LOCKED_TEXT = re.compile(rb'URI="[^"]*\.(?:x?html?|xml|opf|ncx)"', re.I)
_ENTRY_BYTES = 2**20
_SAVED = re.compile(rb'<v>[^<]|\bt="str"')
_WHOLE = 2**53  # beyond it a float is not one whole number


def _read_pdf(content: bytes) -> bytes:
    """Text of a PDF, page after page; of one without a text there is none."""
    document = pypdf.PdfReader(io.BytesIO(content))
    # Many are encrypted only against printing, and open without a password.
    if document.is_encrypted and not document.decrypt(""):
        raise NotConvertedError(Outcome.PASSWORD)
    pages = [page.extract_text() for page in document.pages]
    text = "\n\n".join(page.strip() for page in pages if page.strip())
    return text.encode("utf-8", "replace")


def _read_rtf(content: bytes) -> bytes:
    """Text of RTF, by the code pages that it names: pandoc 3.9 takes all of them for 1252."""
    # It is one group, so what was cut off does not end as one.
    if not content.startswith(b"{\\rtf") or not content.rstrip(b"\x00\r\n ").endswith(b"}"):
        raise NotConvertedError(Outcome.DAMAGED)
    text: str = rtf_to_text(content.decode("cp1252", "replace"), errors="replace")
    return text.encode("utf-8", "replace")


def _is_compound(content: bytes) -> bool:
    """Test for a compound file: of older Office programs, or of newer ones locked.

    Raises:
        NotConvertedError: It is locked.
    """
    if not content.startswith(_OLE):
        return False
    if _ENCRYPTED_PACKAGE in content:
        raise NotConvertedError(Outcome.PASSWORD)
    return True


def _check_package(content: bytes) -> bytes:
    """Refuse what its reader would misread, or would choke on.

    Raises:
        NotConvertedError: A password, damage, or it says that it unpacks to more than it may.
    """
    if _is_compound(content):
        raise NotConvertedError(Outcome.DAMAGED)
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, NotImplementedError):
        raise NotConvertedError(Outcome.DAMAGED) from None
    if sum(entry.file_size for entry in archive.infolist()) > MAX_UNPACKED_BYTES:
        raise NotConvertedError(Outcome.UNPACKS)
    if any(entry.flag_bits & 1 for entry in archive.infolist()):
        raise NotConvertedError(Outcome.PASSWORD)
    manifest = _entry(archive, "META-INF/manifest.xml")  # OpenDocument 1.3, part 2, 4.4
    if b"encryption-data" in manifest or _LOCKED_TEXT.search(
        _entry(archive, "META-INF/encryption.xml")
    ):
        raise NotConvertedError(Outcome.PASSWORD)
    return b""


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as file:
            return file.read(_ENTRY_BYTES)
    except KeyError:
        return b""


def _read_sheets(content: bytes) -> bytes:
    """A spreadsheet as text: a line for each row that is not blank, its cells apart by bars."""
    sheets = ("\n".join(row_in_words(cells) for _, cells in sheet) for sheet in _sheets(content))
    return "\n\n".join(sheet for sheet in sheets if sheet).encode("utf-8", "replace")


def _read_rows(content: bytes) -> bytes:
    """A spreadsheet as JSON.

    Its sheets of rows that are not blank, each its number and its cells; and whether a formula has
    no value.
    """
    sheets = [list(sheet) for sheet in _sheets(content)]
    return json.dumps({"sheets": sheets, "unsaved": _has_unsaved(content)}).encode()


def _sheets(content: bytes) -> Iterator[Iterator[tuple[int, list[str]]]]:
    if not _is_compound(content):
        _check_package(content)
        _require_whole(content)
    try:
        book = python_calamine.load_workbook(io.BytesIO(content))
    except python_calamine.PasswordError:
        raise NotConvertedError(Outcome.PASSWORD) from None
    for sheet in book.sheets_metadata:
        # A chart of a sheet of its own says nothing, or what other sheets say already.
        is_table = sheet.typ == python_calamine.SheetTypeEnum.WorkSheet
        yield _rows(book.get_sheet_by_name(sheet.name)) if is_table else iter(())


def _require_whole(content: bytes) -> None:
    """Refuse a sheet of OpenDocument whose tags do not close: its reader would never end."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if "content.xml" in archive.namelist():
            try:
                expat.ParserCreate().ParseFile(archive.open("content.xml"))
            except expat.ExpatError:
                raise NotConvertedError(Outcome.DAMAGED) from None


def _rows(sheet: python_calamine.CalamineSheet) -> Iterator[tuple[int, list[str]]]:
    top, left = sheet.start or (0, 0)
    rows = [[_written(value) for value in row] for row in sheet.to_python()]
    for (first, column), (last, _) in sheet.merged_cell_ranges or ():
        # What is merged over several rows is said of each of them.
        for row in rows[max(0, first - top) + 1 : max(0, last - top) + 1]:
            if 0 <= column - left < len(row) and first >= top:
                row[column - left] = row[column - left] or rows[first - top][column - left]
    for number, cells in enumerate(rows, top + 1):
        if any(cells):
            yield number, cells


def _has_unsaved(content: bytes) -> bool:
    """Test for a formula without the value that a program has computed (ECMA-376, 18.3.1.4)."""
    if content.startswith(_OLE):
        return False
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                cells = (
                    one[max(0, one.rfind(b"<c ")) :] for one in archive.read(name).split(b"</c>")
                )
                if any(b"<f" in cell and not _SAVED.search(cell) for cell in cells):
                    return True
    return False


def _written(value: object) -> str:
    """A cell in words: whole numbers without a fraction, times as ISO 8601 has them."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    return str(value).strip()


# What is imported here costs no file its time.
if is_installed("pdf"):
    import pypdf

    READERS["pdf"] = FileReader(_read_pdf)
if (program := pandoc()) is not None:
    for kind in PANDOC_KINDS:
        # In its sandbox it reads no file but this, and reaches no network.
        command = (program, "--sandbox", f"--from={kind}", "--to=plain", "--wrap=none")
        READERS[kind] = FileReader(_check_package, command)
if is_installed("rtf"):
    from striprtf.striprtf import rtf_to_text

    READERS["rtf"] = FileReader(_read_rtf)
if is_installed("sheet"):
    import python_calamine

    READERS["sheet"] = FileReader(_read_sheets)
    READERS["rows"] = FileReader(_read_rows)
if is_installed("msg"):
    from dpicl_rag.conversion.outlook import read_message

    READERS["msg"] = FileReader(read_message)
