"""Kinds of files, by their names and by how they begin."""

from __future__ import annotations

import codecs
import re
import zlib
from pathlib import Path
from typing import Literal

from dpicl_rag.loaders.characters import UTF16
from dpicl_rag.loaders.mbox import begins_mailbox
from dpicl_rag.loaders.records import UNSUPPORTED, WAYS_OUT
from dpicl_rag.loaders.streams import open_stream

FileFormat = Literal[
    "mbox", "eml", "csv", "json", "jsonl", "text", "html",
    "pdf", "docx", "pptx", "odt", "rtf", "epub", "sheet", "msg",
]  # fmt: skip

CONVERTED: frozenset[FileFormat] = frozenset(
    ["pdf", "docx", "pptx", "odt", "rtf", "epub", "sheet", "msg"]
)
"""Kinds that `dpicl_rag.conversion` reads, with the extra ``files``."""

KINDS: dict[str, FileFormat] = {
    ".mbox": "mbox",
    ".mbx": "mbox",
    ".eml": "eml",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
    ".text": "text",
    ".md": "text",
    ".markdown": "text",
    ".rst": "text",
    ".log": "text",
    ".html": "html",
    ".htm": "html",
    ".pdf": "pdf",
    ".docx": "docx",
    ".docm": "docx",
    ".pptx": "pptx",
    ".pptm": "pptx",
    ".odt": "odt",
    ".rtf": "rtf",
    ".epub": "epub",
    ".xlsx": "sheet",
    ".xlsm": "sheet",
    ".xls": "sheet",
    ".ods": "sheet",
    ".msg": "msg",
}
"""Kinds by endings in lower case."""

# How files of known kinds begin that are no text, though all their bytes may be characters.
_SIGNATURES = (
    b"%PDF-", b"{\\rtf", b"%!PS", b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a", b"(\xb5/\xfd",
    b"\x89PNG", b"GIF87a", b"GIF89a", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*", b"RIFF", b"OggS",
    b"ID3\x02", b"ID3\x03", b"ID3\x04", b"fLaC", b"\x7fELF", b"MZ\x90", b"\xca\xfe\xba\xbe",
    b"SQLite format 3\x00", b"PAR1", b"\x93NUMPY", b"AT&TFORM",
)  # fmt: skip
_BY_SIGNATURE: dict[bytes, FileFormat] = {b"%PDF-": "pdf", b"{\\rtf": "rtf"}
# NUL stands in no text. Of the others a log or a damaged text may have some, but few.
_CONTROL = re.compile(rb"[\x01-\x07\x0e-\x19\x1c-\x1f]")
_FEW = 3
_LARGEST_PART = 50  # one in so many bytes
_HEAD_BYTES = 8192
_MAIL_HEADER = re.compile(
    rb"(?:Return-Path|Received|Delivered-To|Message-ID|MIME-Version|Date|From|Subject): ", re.I
)
_HEADER_LINE = re.compile(rb"[!-9;-~]+:")
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f]")


def suffix_of(name: str) -> str:
    """The ending of a file's name in lower case, without that of an archive of gzip."""
    return Path(name.lower().removesuffix(".gz")).suffix


def unsupported(name: str) -> str:
    """Reason why a file of no supported kind is not read, with the remedy where it is known."""
    way = WAYS_OUT.get(suffix_of(name))
    return f"{UNSUPPORTED}; {way}" if way else UNSUPPORTED


def signed_kind(head: bytes) -> FileFormat | None:
    """The kind of a file that says by its first bytes what it is."""
    return next((kind for sign, kind in _BY_SIGNATURE.items() if head.startswith(sign)), None)


def is_signed(head: bytes) -> bool:
    """Whether a file begins as one that is no text."""
    return head.startswith(_SIGNATURES)


def is_binary(raw: bytes) -> bool:
    """Whether the bytes of a file are no text: a function of them alone.

    They begin as those of a known kind do, or have a NUL outside UTF-16, or more control characters
    than one in 50 bytes.
    """
    if is_signed(raw):
        return True
    if raw[:2] in UTF16:
        lost = raw.decode("utf-16", "replace").count("\ufffd")
        return _are_many(lost, len(raw) // 2)
    return b"\x00" in raw or _are_many(len(_CONTROL.findall(raw)), len(raw))


def _are_many(found: int, size: int) -> bool:
    return found > max(_FEW, size // _LARGEST_PART)


def kind_of(path: Path) -> FileFormat | None:
    """The kind of a file, by its name, or by its first bytes where the name says nothing."""
    known = KINDS.get(suffix_of(path.name))
    if known is not None:
        return known
    try:
        with open_stream(path) as stream:
            return _sniff(stream.read(_HEAD_BYTES))
    except (OSError, EOFError, zlib.error):
        return None


def _sniff(head: bytes) -> FileFormat | None:
    if begins_mailbox(head):
        return "mbox"
    if is_signed(head):
        return signed_kind(head)
    if head[:2] not in UTF16 and _NO_TEXT.search(head):
        return None
    if _HEADER_LINE.match(head):
        block = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
        if any(_MAIL_HEADER.match(line) for line in block.splitlines()):
            return "eml"
    if head[:2] in UTF16:
        return "text"
    try:
        # The head may end inside a character.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None
    return "text"
