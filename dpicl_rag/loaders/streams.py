"""Bytes of files: unpacked, measured, cut into lines, and limited in size.

Nothing is loaded of a file beyond the limits: a part of one never is. Packed with gzip, a file
holds up to a thousand times its size, and a row of one character takes a thousand times its own as
a record. So there are two public limits: on the bytes of a file when it is unpacked, and on what
its records take in memory. Both are lower for a small archive.
"""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

from dpicl_rag.loaders.characters import UTF16
from dpicl_rag.loaders.records import MAX_RECORD_BYTES, Record, RecordOrSkipped, UnreadableError

#: A file opened for reading, compressed or not.
Stream = io.BufferedReader

MAX_FILE_BYTES = 4 * 2**30
"""A file of more bytes is not loaded, nor is one whose records take more in memory, about."""
MAX_PACKED_BYTES = 2**30
"""An archive may hold so many bytes, or `PACKED_RATIO` times its size if that is more."""
PACKED_RATIO = 100

_RECORD_BYTES = 1024  # what a record takes beside its text and its fields
_FIELD_BYTES = 128
_GZIP = b"\x1f\x8b"
_PIECE = 2**20


def is_packed(path: Path) -> bool:
    """Test for a gzip archive, by the first two bytes of a file.

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


class Allowance:
    """The memory that a file's records may still take.

    Args:
        path: The file. An archive is unpacked once, so that nothing is kept of one that is damaged
            or too large.

    Raises:
        UnreadableError: It is too large.
        OSError, EOFError, zlib.error: It cannot be read, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._most = MAX_FILE_BYTES
        self._remedy = "split it"
        if is_packed(path):
            self._most = min(
                MAX_FILE_BYTES, max(MAX_PACKED_BYTES, PACKED_RATIO * path.stat().st_size)
            )
            self._remedy = "unpack it or split it"
        self._left = self._most
        if size_of(path, self._most) > self._most:
            raise self._refusal("holds")

    def take(self, entry: RecordOrSkipped) -> None:
        """Take what an entry needs in memory.

        Raises:
            UnreadableError: The file's records take too much.
        """
        self._left -= _weight(entry)
        if self._left < 0:
            raise self._refusal("takes in memory")

    def _refusal(self, does: str) -> UnreadableError:
        return UnreadableError(
            f"it {does} more than {self._most // 2**20:,} MiB, so nothing of it is loaded; "
            f"{self._remedy}"
        )


def _weight(entry: RecordOrSkipped) -> int:
    """Bytes that an entry takes in memory, about."""
    if not isinstance(entry, Record):
        return _RECORD_BYTES
    fields = sum(_FIELD_BYTES + len(value) for value in entry.metadata.values())
    return _RECORD_BYTES + len(entry.text) + fields
