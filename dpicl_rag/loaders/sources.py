"""Files and directories: what kind each is, its bytes, and its characters."""

from __future__ import annotations

import codecs
import io
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpicl_rag.loaders.limits import Unpacked
from dpicl_rag.loaders.records import LINK, MAX_RECORD_BYTES
from dpicl_rag.loaders.report import Skipped

Kind = Literal["mbox", "eml", "csv", "jsonl", "text", "html"]

SUPPORTED = "mbox, maildir, .eml, .csv, .tsv, .jsonl, text and HTML files, each also as .gz"

_KINDS: dict[str, Kind] = {
    ".mbox": "mbox",
    ".mbx": "mbox",
    ".eml": "eml",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
    ".text": "text",
    ".md": "text",
    ".rst": "text",
    ".log": "text",
    ".html": "html",
    ".htm": "html",
}
_GZIP = b"\x1f\x8b"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEAD_BYTES = 8192
_MAIL_HEADER = re.compile(
    rb"(?:Return-Path|Received|Delivered-To|Message-ID|MIME-Version|Date|From|Subject): ", re.I
)
_HEADER_LINE = re.compile(rb"[!-9;-~]+:")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f]")


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read.

    Attributes:
        path: The file.
        name: Its name inside the directory that is loaded; empty for a file loaded by itself.
        kind: What it holds, or None if that is not supported.
    """

    path: Path
    name: str
    kind: Kind | None


def find_sources(path: Path) -> Iterator[Source | Skipped]:
    """The file itself, or every file below a directory in the order of their names.

    A link inside the directory is skipped: it may lead out of what the owner named, or to a text
    that is there already, which would then be two units. The path itself may be one.

    A directory that holds ``cur`` and ``new`` is a maildir: what lies in these two is mail
    whatever its name, and what lies in ``tmp`` is still being delivered and not looked at.
    """
    if not path.is_dir():
        yield Source(path, "", kind_of(path))
        return
    for folder, folders, files in os.walk(path):
        here = Path(folder)
        if {"cur", "new"} <= set(folders):
            folders[:] = [name for name in folders if name != "tmp"]
        links = [name for name in (*folders, *files) if (here / name).is_symlink()]
        for name in sorted(links):
            yield Skipped(_printable(str((here / name).relative_to(path))), LINK)
        folders[:] = sorted(set(folders) - set(links))
        in_maildir = here.name in ("cur", "new") and all(
            (here.parent / name).is_dir() for name in ("cur", "new")
        )
        for name in sorted(set(files) - set(links)):
            file = here / name
            kind: Kind | None = None
            # A pipe or a socket would block the load for ever.
            if file.is_file():
                kind = "eml" if in_maildir else kind_of(file)
            yield Source(file, _printable(str(file.relative_to(path))), kind)


def kind_of(path: Path) -> Kind | None:
    """The kind of a file, by its name, or by its first bytes where the name says nothing."""
    name = path.name.lower().removesuffix(".gz")
    known = _KINDS.get(Path(name).suffix)
    if known is not None:
        return known
    try:
        with open_stream(path) as stream:
            return _sniff(stream.read(_HEAD_BYTES))
    except (OSError, EOFError, zlib.error):
        return None


#: A file opened for reading, compressed or not.
Stream = io.BufferedReader


def open_stream(path: Path) -> Stream:
    """Open a file for reading, through gzip if its first two bytes say so.

    Reading more of what is compressed than its `allowance` raises FileTooLargeError.
    """
    with path.open("rb") as probe:
        zipped = probe.read(2) == _GZIP
    return io.BufferedReader(Unpacked(path)) if zipped else path.open("rb")


def lines_of(stream: Stream) -> Iterator[bytes]:
    """Lines in a superset of ASCII, without a mark; an over-long one comes in several pieces."""
    if stream.peek(2)[:2] in _UTF16:
        with io.TextIOWrapper(stream, "utf-16", errors="replace", newline="\n") as wrapper:
            while text := wrapper.readline(MAX_RECORD_BYTES // 2):
                yield text.encode("utf-8", "replace")
        return
    first = stream.readline(MAX_RECORD_BYTES).removeprefix(codecs.BOM_UTF8)
    if first:
        yield first
    while line := stream.readline(MAX_RECORD_BYTES):
        yield line


def decode(raw: bytes) -> str:
    """Characters from bytes of unknown encoding; never fails.

    UTF-16 and UTF-8 by their marks, else UTF-8. Where that fails: UTF-8 with the broken bytes
    replaced if it has more good characters beyond ASCII than broken ones, else Windows-1252 (a
    superset of Latin-1's printable part).
    """
    if raw[:2] in _UTF16:
        return raw.decode("utf-16", "replace")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    if sum(character > "\x7f" for character in text) > 2 * broken:
        return text
    return raw.decode("cp1252", "replace")


def is_binary(raw: bytes) -> bool:
    """Whether bytes hold a NUL, which no text has outside UTF-16."""
    return raw[:2] not in _UTF16 and b"\x00" in raw


def _printable(name: str) -> str:
    # File names are bytes to the system; one that is no UTF-8 must still print in a report.
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _sniff(head: bytes) -> Kind | None:
    if head.startswith(b"From ") and _HEADER_LINE.match(head.partition(b"\n")[2]):
        return "mbox"
    if head[:2] not in _UTF16 and _CONTROL.search(head):
        return None
    if _HEADER_LINE.match(head):
        block = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
        if any(_MAIL_HEADER.match(line) for line in block.splitlines()):
            return "eml"
    if head[:2] in _UTF16:
        return "text"
    try:
        # The head may end inside a character.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None
    return "text" if head.strip() else None
