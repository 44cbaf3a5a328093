"""Size limits of files. Nothing is loaded of a larger file: a part of one never is.

Packed with gzip, a file holds up to a thousand times its size, and a row of one character takes a
thousand times its own as a record. So there are two public limits: on the bytes of a file when it
is unpacked, and on what its records take in memory. Both are lower for a small archive.
"""

from __future__ import annotations

from pathlib import Path

from dpicl_rag.loaders.records import Record, RecordOrSkipped, UnreadableError
from dpicl_rag.loaders.streams import is_packed, size_of

MAX_FILE_BYTES = 4 * 2**30
"""A file of more bytes is not loaded, nor is one whose records take more in memory, about."""
MAX_PACKED_BYTES = 2**30
"""An archive may hold so many bytes, or `PACKED_RATIO` times its size if that is more."""
PACKED_RATIO = 100

_RECORD_BYTES = 1024  # what a record takes beside its text and its fields
_FIELD_BYTES = 128


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
