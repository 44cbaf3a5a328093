"""Readers of files, in the child process: PDF, pandoc's formats, spreadsheets, Outlook's messages.

All four libraries are written in languages that keep to their memory (Python, Haskell, Rust), and
none of them runs what a file asks for: scripts, macros, links and remote pictures stay as they are.
"""

from __future__ import annotations

import io
from importlib.util import find_spec

from dpicl_rag.conversion.child import Reader
from dpicl_rag.conversion.formats import PANDOC_FORMATS, pandoc
from dpicl_rag.conversion.outcomes import NotConvertedError, Outcome
from dpicl_rag.conversion.packages import check_package

READERS: dict[str, Reader] = {}


def _read_pdf(content: bytes) -> bytes:
    """Text of a PDF, page after page; of one without a text there is none."""
    import pypdf

    document = pypdf.PdfReader(io.BytesIO(content))
    # Many are encrypted only against printing, and open without a password.
    if document.is_encrypted and not document.decrypt(""):
        raise NotConvertedError(Outcome.PASSWORD)
    pages = [page.extract_text() for page in document.pages]
    text = "\n\n".join(page.strip() for page in pages if page.strip())
    return text.encode("utf-8", "replace")


if find_spec("pypdf"):
    import pypdf  # noqa: F401 - before a file is read, so that this costs each of them nothing

    READERS["pdf"] = Reader(_read_pdf)
if (program := pandoc()) is not None:
    for kind, written in PANDOC_FORMATS.items():
        # Neither wraps lines nor reads any file but this; it reaches no network.
        command = (program, "--sandbox", f"--from={written}", "--to=plain", "--wrap=none")
        READERS[kind] = Reader(check_package, command)
if find_spec("python_calamine"):
    from dpicl_rag.conversion.spreadsheets import read_rows, read_sheets

    READERS["sheet"] = Reader(read_sheets)
    READERS["rows"] = Reader(read_rows)
if find_spec("olefile"):
    from dpicl_rag.conversion.outlook import read_message

    READERS["msg"] = Reader(read_message)
