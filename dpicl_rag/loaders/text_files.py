"""Text and HTML files, and single messages: a record per file."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl_rag.loaders.characters import decode, fingerprint
from dpicl_rag.loaders.file_kinds import is_binary
from dpicl_rag.loaders.load_report import Skipped
from dpicl_rag.loaders.mail import read_mail
from dpicl_rag.loaders.markup import text_of_html
from dpicl_rag.loaders.records import (
    BINARY,
    EMPTY,
    MAX_RECORD_BYTES,
    TOO_LARGE,
    Entry,
    Options,
    Record,
    tidy,
)
from dpicl_rag.loaders.streams import Stream


def read_text(stream: Stream, name: str, options: Options) -> Iterator[Entry]:
    """Read a text file, which is one record."""
    return _read_file(stream, name, is_html=False)


def read_html(stream: Stream, name: str, options: Options) -> Iterator[Entry]:
    """Read an HTML file as ``read_text`` does, as the text that a reader sees."""
    return _read_file(stream, name, is_html=True)


def read_eml(stream: Stream, name: str, options: Options) -> Iterator[Entry]:
    """Read a file that holds one message."""
    yield read_mail(stream.read(MAX_RECORD_BYTES + 1), name, options)


def _read_file(stream: Stream, name: str, *, is_html: bool) -> Iterator[Entry]:
    raw = stream.read(MAX_RECORD_BYTES + 1)
    if len(raw) > MAX_RECORD_BYTES:
        yield Skipped(name, TOO_LARGE)
        return
    if is_binary(raw):
        yield Skipped(name, BINARY)
        return
    text = decode(raw)
    text = tidy(text_of_html(text) if is_html else text)
    if text:
        yield Record(name, text, {"file": name}, content=fingerprint(raw))
    else:
        yield Skipped(name, EMPTY)
