"""Text and HTML files, and single messages: a record per file."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl_rag.loaders.characters import decode, fingerprint
from dpicl_rag.loaders.file_kinds import is_binary
from dpicl_rag.loaders.load_report import Skipped
from dpicl_rag.loaders.records import (
    BINARY,
    EMPTY,
    MAX_RECORD_BYTES,
    TOO_LARGE,
    LoaderItem,
    Options,
    Record,
    RecordOrSkipped,
    Unparsed,
    tidy,
)
from dpicl_rag.loaders.streams import Stream


def read_text(stream: Stream, name: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a text file, which is one record."""
    raw = stream.read(MAX_RECORD_BYTES + 1)
    if reason := _refused(raw):
        yield Skipped(name, reason)
    else:
        yield record_of_text(tidy(decode(raw)), raw, name)


def read_html(stream: Stream, name: str, options: Options) -> Iterator[LoaderItem]:
    """Read an HTML file as ``read_text`` does, as the text that a reader sees."""
    raw = stream.read(MAX_RECORD_BYTES + 1)
    reason = _refused(raw)
    yield Skipped(name, reason) if reason else Unparsed(name, "html", raw)


def read_eml(stream: Stream, name: str, options: Options) -> Iterator[LoaderItem]:
    """Read a file that holds one message."""
    yield Unparsed(name, "mail", stream.read(MAX_RECORD_BYTES + 1))


def record_of_text(text: str, raw: bytes, name: str) -> RecordOrSkipped:
    """A record of a file that is one text, or why there is none."""
    if not text:
        return Skipped(name, EMPTY)
    return Record(name, text, {"file": name}, content=fingerprint(raw))


def _refused(raw: bytes) -> str:
    if len(raw) > MAX_RECORD_BYTES:
        return TOO_LARGE
    return BINARY if is_binary(raw) else ""
