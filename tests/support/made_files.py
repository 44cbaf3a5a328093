"""Files of many kinds, made up: PDF, spreadsheets and Outlook's messages byte by byte.

Pandoc writes the office files and the books, as it also reads them: what programs of people write
is different, so these test the way that files go and not how well each is read.
"""

from __future__ import annotations

import io
import struct
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

import pytest

from dpicl_rag.conversion.confinement import MAX_UNPACKED_BYTES
from dpicl_rag.conversion.conversions import is_installed, pandoc

PANDOC_KINDS = ("docx", "pptx", "odt", "rtf", "epub")
needs_files = pytest.mark.skipif(
    not all(map(is_installed, (*PANDOC_KINDS, "pdf", "sheet", "msg"))),
    reason="the extra `files` is not installed",
)


@cache
def office(kind: str, markdown: str) -> bytes:
    """An office file or a book that pandoc writes."""
    command = [str(pandoc()), "--sandbox", "--from=markdown", f"--to={kind}", "--standalone"]
    made = subprocess.run(  # the pandoc of the extra
        [*command, "--output=-"], input=markdown.encode(), capture_output=True, check=True
    )
    return made.stdout


# ---- PDF ----


def pdf(text: str = "", *, extra: str = "", catalog: str = "") -> bytes:
    """A PDF with one page of one line.

    Args:
        text: The line.
        extra: More objects, from the sixth on.
        catalog: More entries of the catalog.
    """
    shown = "".join(f"\\{c}" if c in "()\\" else c for c in text)
    stream = f"BT /F1 12 Tf 72 720 Td ({shown}) Tj ET" if text else "0 0 m 9 9 l S"
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {catalog} >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *([extra] if extra else []),
    ]
    made = b"%PDF-1.4\n"
    places = []
    for number, written in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{written}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return made + f"{end}startxref\n{len(made)}\n%%EOF\n".encode()


def locked_pdf(text: str, password: str, owner: str = "owner") -> bytes:
    """A PDF that opens with a password; with none where that is empty."""
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(text))))
    writer.encrypt(password, owner, algorithm="AES-256")
    held = io.BytesIO()
    writer.write(held)
    return held.getvalue()


# ---- archives and spreadsheets ----


def archive(entries: Mapping[str, bytes | str]) -> bytes:
    """A ZIP archive."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries.items():
            made.writestr(name, content)
    return held.getvalue()


def edited(package: bytes, entries: Mapping[str, bytes | str]) -> bytes:
    """An archive with other contents under some names."""
    with zipfile.ZipFile(io.BytesIO(package)) as there:
        kept = {name: there.read(name) for name in there.namelist()}
    return archive({**kept, **entries})


def swollen(package: bytes) -> bytes:
    """An archive whose list says that its entries unpack to more than an office file may."""
    size, said = 4_471, MAX_UNPACKED_BYTES + 1
    honest = edited(package, {"word/media/a.png": bytes(size)})
    content = honest.replace(size.to_bytes(4, "little"), said.to_bytes(4, "little"))
    with zipfile.ZipFile(io.BytesIO(content)) as there:
        assert there.getinfo("word/media/a.png").file_size == said
    return content


_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def xlsx(*sheets: Sequence[Sequence[str | float | bool]]) -> bytes:
    """A workbook; its cells are texts, numbers and truth values."""
    numbers = range(1, len(sheets) + 1)
    listed = "".join(f'<sheet name="S{n}" sheetId="{n}" r:id="r{n}"/>' for n in numbers)
    links = "".join(
        f'<Relationship Id="r{n}" Type="{_LINKS}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in numbers
    )
    entries = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/'
        'vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r" '
        f'Type="{_LINKS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_LINKS}">'
        f"<sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f"{links}</Relationships>",
    }
    for n, rows in zip(numbers, sheets, strict=True):
        written = "".join(
            f'<row r="{at}">{_cells(row, at)}</row>' for at, row in enumerate(rows, 1)
        )
        entries[f"xl/worksheets/sheet{n}.xml"] = (
            f'<worksheet xmlns="{_MAIN}"><sheetData>{written}</sheetData></worksheet>'
        )
    return archive(entries)


def xlsb(rows: Sequence[Sequence[str | float]]) -> bytes:
    """A workbook of one sheet as Excel's binary format has it (MS-XLSB, 2.1.4)."""
    listed = _record(156, bytes(4), struct.pack("<I", 1), _wide("r1"), _wide("S1"))
    size = struct.pack("<4I", 0, len(rows) - 1, 0, max(map(len, rows)) - 1)
    sheet = [_record(129), _record(148, size), _record(145)]
    for at, row in enumerate(rows):
        sheet.append(_record(0, struct.pack("<I", at), bytes(13)))
        for column, value in enumerate(row):
            place = struct.pack("<II", column, 0)
            is_text = isinstance(value, str)
            told = _wide(value) if isinstance(value, str) else struct.pack("<d", value)
            sheet.append(_record(6 if is_text else 5, place, told))
    return archive(
        {
            "xl/workbook.bin": b"".join(
                (_record(131), _record(143), listed, _record(144), _record(132))
            ),
            "xl/_rels/workbook.bin.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
            f'<Relationship Id="r1" Type="{_LINKS}/worksheet" Target="worksheets/sheet1.bin"/>'
            "</Relationships>",
            "xl/worksheets/sheet1.bin": b"".join((*sheet, _record(146), _record(130))),
        }
    )


def _record(kind: int, *body: bytes) -> bytes:
    head = bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
    return head + bytes([sum(map(len, body))]) + b"".join(body)


def _wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def _cells(row: Sequence[str | float | bool], at: int) -> str:
    return "".join(_cell(value, f"{chr(65 + n)}{at}") for n, value in enumerate(row))


def _cell(value: str | float | bool, place: str) -> str:
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        told = value.replace("&", "&amp;").replace("<", "&lt;")
        return f'<c r="{place}" t="inlineStr"><is><t>{told}</t></is></c>' if value else ""
    return f'<c r="{place}"><v>{value!r}</v></c>'


_OFFICE = "urn:oasis:names:tc:opendocument:xmlns"


def ods(rows: Sequence[Sequence[str]]) -> bytes:
    """A spreadsheet of OpenDocument."""
    written = "".join(
        "<table:table-row>"
        + "".join(
            '<table:table-cell office:value-type="string">'
            f"<text:p>{cell}</text:p></table:table-cell>"
            for cell in row
        )
        + "</table:table-row>"
        for row in rows
    )
    content = (
        f'<office:document-content xmlns:office="{_OFFICE}:office:1.0" '
        f'xmlns:table="{_OFFICE}:table:1.0" xmlns:text="{_OFFICE}:text:1.0">'
        f'<office:body><office:spreadsheet><table:table table:name="S">{written}'
        "</table:table></office:spreadsheet></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    listed = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    manifest = f'<manifest:manifest xmlns:manifest="{listed}"></manifest:manifest>'
    return archive({"mimetype": kind, "META-INF/manifest.xml": manifest, "content.xml": content})


# ---- files that are out to harm ----

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def docx_of(text: str, doctype: str = "") -> bytes:
    """A Word document with one paragraph of raw XML."""
    document = (
        f'<?xml version="1.0"?>{doctype}<w:document xmlns:w="{_WORD}"><w:body><w:p><w:r>'
        f"<w:t>{text}</w:t></w:r></w:p></w:body></w:document>"
    )
    return edited(office("docx", "words"), {"word/document.xml": document})


def entity(path: str) -> str:
    """A document type whose entity ``x`` is a file or an address."""
    return f'<!DOCTYPE d [<!ENTITY x SYSTEM "{path}">]>'


def laughs() -> str:
    """A document type whose entity ``x`` is a billion letters."""
    grown = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in pairwise("abcdefghijx"))
    return f'<!DOCTYPE d [<!ENTITY a "{"z" * 10}">{grown}]>'


def odt_of(text: str, doctype: str) -> bytes:
    """An OpenDocument text with raw XML in its place."""
    whole = office("odt", "words")
    with zipfile.ZipFile(io.BytesIO(whole)) as there:
        content = there.read("content.xml").decode()
    content = content.replace("?>", f"?>{doctype}", 1).replace("words", text)
    return edited(whole, {"content.xml": content})


def nested_archive(depth: int) -> bytes:
    """An archive within an archive, and so on."""
    made = b"words"
    for _ in range(depth):
        made = archive({"a.zip": made})
    return made


# ---- Outlook ----

_SECTOR, _FREE, _END, _FAT = 512, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD


def msg(
    properties: Mapping[str, str | bytes],
    *,
    numbers: Mapping[int, int] | None = None,
    recipients: Sequence[Mapping[str, str | bytes]] = (),
    attachments: Sequence[Mapping[str, str | bytes]] = (),
) -> bytes:
    """An Outlook message; see `dpicl_rag.conversion.outlook` for the numbers of properties."""
    tree: dict[str, object] = _storage(properties, 32, numbers)
    for at, one in enumerate(recipients):
        tree[f"__recip_version1.0_#{at:08X}"] = _storage(one, 8, {0x0C15: 1})
    for at, one in enumerate(attachments):
        tree[f"__attach_version1.0_#{at:08X}"] = _storage(one, 8, None)
    return compound(tree)


def _storage(
    properties: Mapping[str, str | bytes], head: int, numbers: Mapping[int, int] | None
) -> dict[str, object]:
    fixed = bytes(head) + b"".join(
        struct.pack("<HHIQ", 0x40, number, 6, value) for number, value in (numbers or {}).items()
    )
    made: dict[str, object] = {"__properties_version1.0": fixed}
    for number, value in properties.items():
        is_text = isinstance(value, str)
        raw = value.encode("utf-16-le") if isinstance(value, str) else value
        made[f"__substg1.0_{number}{'001F' if is_text else '0102'}"] = raw
    return made


def compound(tree: Mapping[str, object]) -> bytes:
    """A compound file of streams and storages ([MS-CFB], version 3), all in whole sectors."""
    entries: list[list[object]] = [["Root Entry", 5, _FREE, _FREE, _FREE, _END, 0]]
    sectors: list[bytes] = []
    chains: list[int] = []

    def chain(raw: bytes) -> int:
        start = len(sectors)
        pieces = [
            raw[at : at + _SECTOR].ljust(_SECTOR, b"\0") for at in range(0, len(raw), _SECTOR)
        ]
        sectors.extend(pieces)
        chains.extend([*range(start + 1, start + len(pieces)), _END])
        return start

    def add(name: str, what: object) -> int:
        at = len(entries)
        entries.append([name, 1, _FREE, _FREE, _FREE, _END, 0])
        if isinstance(what, Mapping):
            entries[at][1] = 1
            entries[at][4] = listed(what)
        elif isinstance(what, bytes):
            # Streams below 4,096 bytes would live in the mini stream: these are filled up with
            # zeros, which end texts, and cut again by their size where it is larger.
            entries[at][1] = 2
            raw = what if len(what) >= 4_096 else what.ljust(4_096, b"\0")
            entries[at][5], entries[at][6] = chain(raw), len(raw)
        return at

    def listed(children: Mapping[str, object]) -> int:
        # Each sibling hangs to the right of the one before; names come in their order.
        names = sorted(children, key=lambda name: (len(name), name.upper()))
        places = [add(name, children[name]) for name in names]
        for one, following in pairwise(places):
            entries[one][3] = following
        return places[0] if places else _FREE

    entries[0][4] = listed(tree)
    raw = b"".join(_entry(*one) for one in entries)  # type: ignore[arg-type]
    directory = chain(raw.ljust(-(-len(raw) // _SECTOR) * _SECTOR, b"\0"))
    tables = 1
    while len(sectors) + tables > tables * 128:
        tables += 1
    first = len(sectors)
    chains.extend([_FAT] * tables)
    table = struct.pack(f"<{len(chains)}I", *chains).ljust(tables * _SECTOR, b"\xff")
    head = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6,
        0, tables, directory, 0, 4_096, _END, 0, _END, 0,
    )  # fmt: skip
    places = [*range(first, first + tables)]
    head += struct.pack("<109I", *places, *[_FREE] * (109 - tables))
    return head + b"".join(sectors) + table


def _entry(name: str, kind: int, left: int, right: int, child: int, start: int, size: int) -> bytes:
    named = name.encode("utf-16-le")
    return struct.pack(
        "<64sHBBIII16xI8x8xIQ",
        named, len(named) + 2, kind, 1, left, right, child, 0, start if kind != 1 else 0, size,
    )  # fmt: skip
