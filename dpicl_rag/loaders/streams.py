"""Bytes of files: unpacked, measured and cut into lines."""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

from dpicl_rag.loaders.characters import UTF16
from dpicl_rag.loaders.records import MAX_RECORD_BYTES

#: A file opened for reading, compressed or not.
Stream = io.BufferedReader

_GZIP = b"\x1f\x8b"
_PIECE = 2**20


def is_packed(path: Path) -> bool:
    """Whether a file is a gzip archive, by its first two bytes.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as probe:
        return probe.read(2) == _GZIP


def open_stream(path: Path) -> Stream:
    """Open a file for reading, through gzip if it is packed.

    Raises:
        OSError: It cannot be read.
    """
    return io.BufferedReader(gzip.GzipFile(path, "rb")) if is_packed(path) else path.open("rb")


def size_of(path: Path, most: int) -> int:
    """Bytes that a file holds. An archive is unpacked for it, to its end or to ``most`` bytes.

    Raises:
        OSError, EOFError, zlib.error: It cannot be read, or is damaged anywhere.
    """
    if not is_packed(path):
        return path.stat().st_size
    size = 0
    with open_stream(path) as stream:
        while size <= most and (piece := stream.read(_PIECE)):
            size += len(piece)
    return size


def lines_of(stream: Stream) -> Iterator[bytes]:
    """Lines in a superset of ASCII, without a mark; an over-long one comes in several pieces."""
    if stream.peek(2)[:2] in UTF16:
        yield from _lines_of_utf16(stream)
        return
    first = stream.readline(MAX_RECORD_BYTES).removeprefix(codecs.BOM_UTF8)
    if first:
        yield first
    while line := stream.readline(MAX_RECORD_BYTES):
        yield line


def _lines_of_utf16(stream: Stream) -> Iterator[bytes]:
    # Halves of characters pass, so that lines which differ in these alone stay different.
    decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
    rest = ""
    while piece := stream.read(_PIECE):
        *lines, rest = (rest + decoder.decode(piece)).split("\n")
        for line in lines:
            yield f"{line}\n".encode("utf-8", "surrogatepass")
        if len(rest) > MAX_RECORD_BYTES:
            yield rest.encode("utf-8", "surrogatepass")
            rest = ""
    if rest:
        yield rest.encode("utf-8", "surrogatepass")
