"""How much one file may take, so that a small file does not fill the memory.

Packed with gzip, a file holds up to a thousand times its size, and a row of one character takes a
thousand times its own as a record. So a file may unpack to, and be kept in, as many bytes as
`allowance` says; the rest of it is left out and reported. Both are public numbers.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import TYPE_CHECKING

from dpicl_rag.loaders.records import Entry, Record

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_FREE_BYTES = 128 * 2**20
_RATIO = 100
_RECORD_BYTES = 1024  # what a record takes beside its text and its fields
_FIELD_BYTES = 128


class FileTooLargeError(Exception):
    """A file takes more than its allowance."""


def allowance(path: Path) -> int:
    """Bytes that a file may take: 128 MiB and 100 times its size."""
    return _FREE_BYTES + _RATIO * path.stat().st_size


def weight(entry: Entry) -> int:
    """Bytes that an entry takes in memory, about."""
    if not isinstance(entry, Record):
        return _RECORD_BYTES
    fields = sum(_FIELD_BYTES + len(value) for value in entry.metadata.values())
    return _RECORD_BYTES + len(entry.text) + fields


class Unpacked(io.RawIOBase):
    """What a gzip file holds, up to its allowance.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._left = allowance(path)
        self._packed = gzip.GzipFile(path, "rb")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read the next bytes.

        Raises:
            FileTooLargeError: They are beyond the allowance.
        """
        count = self._packed.readinto1(buffer)  # what came before damage is kept
        self._left -= count
        if self._left < 0:
            raise FileTooLargeError
        return count

    def close(self) -> None:
        """Close the file."""
        self._packed.close()
        super().close()
