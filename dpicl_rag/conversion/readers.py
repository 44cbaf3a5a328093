"""Readers of files, in the child process: PDF, RTF, office files, books, Outlook's messages.

All five libraries are written in languages that keep to their memory (Python, Haskell, Rust), and
none of them runs what a file asks for: scripts, macros, links and remote pictures stay as they are.
"""

from __future__ import annotations

import io

from dpicl_rag.conversion.child import FileReader
from dpicl_rag.conversion.formats import PANDOC_KINDS, is_installed, pandoc
from dpicl_rag.conversion.outcomes import NotConvertedError, Outcome
from dpicl_rag.conversion.packages import check_package

READERS: dict[str, FileReader] = {}


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


# What is imported here costs no file its time.
if is_installed("pdf"):
    import pypdf

    READERS["pdf"] = FileReader(_read_pdf)
if (program := pandoc()) is not None:
    for kind in PANDOC_KINDS:
        # In its sandbox it reads no file but this, and reaches no network.
        command = (program, "--sandbox", f"--from={kind}", "--to=plain", "--wrap=none")
        READERS[kind] = FileReader(check_package, command)
if is_installed("rtf"):
    from striprtf.striprtf import rtf_to_text

    READERS["rtf"] = FileReader(_read_rtf)
if is_installed("sheet"):
    from dpicl_rag.conversion.spreadsheets import read_rows, read_sheets

    READERS["sheet"] = FileReader(read_sheets)
    READERS["rows"] = FileReader(read_rows)
if is_installed("msg"):
    from dpicl_rag.conversion.outlook import read_message

    READERS["msg"] = FileReader(read_message)
