"""The vectors of a corpus: one file that is mapped, numbered by the rows of its passages.

A row is a gridded vector, the number of its unit, twice, and a checksum of the vector. Rows behind
the last that the corpus has committed are nobody's: a writer who is killed leaves them to the next
one. Units of rows that are there already change after the commit that says so, and the corpus keeps
saying so until they have reached the disk.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.vector_rows import DamagedError, VectorRows, checksums, width_of

_TAIL = 4  # words of 32 bits behind a vector: the unit, its complement, the checksum

Numbers = npt.NDArray[np.int64]


class VectorFile:
    """The file by its path; whoever writes holds the corpus for writing.

    Args:
        path: Of the file. It need not be there.
        dimensions: Length of the vectors.
    """

    def __init__(self, path: Path, dimensions: int) -> None:
        self.path = path
        self._dimensions = dimensions
        self._words = width_of(dimensions) + _TAIL

    def __repr__(self) -> str:
        return "VectorFile(<private>)"

    def write(
        self, rows: Numbers, vectors: npt.NDArray[np.float32], units: npt.ArrayLike
    ) -> npt.NDArray[np.uint64]:
        """Write vectors into rows, and the numbers of their units.

        Args:
            rows: Where to, ``[n]``.
            vectors: Gridded, ``[n, d]``.
            units: Numbers above 0; 0 where a row is nobody's yet.

        Returns:
            Their checksums.

        Raises:
            CorpusError: The file cannot be written.
        """
        width = width_of(self._dimensions)
        padded = np.zeros((len(rows), width), dtype=np.float32)
        padded[:, : self._dimensions] = vectors
        block = np.zeros((len(rows), self._words), dtype=np.uint32)
        block[:, :width] = padded.view(np.uint32)
        block[:, width] = np.asarray(units, dtype=np.uint32)
        block[:, width + 1] = ~block[:, width]
        found = checksums(padded)
        block[:, width + 2 :] = found.view(np.uint32).reshape(-1, 2)
        with self._open() as stream:
            for first, end in _runs(rows):
                stream.seek(int(rows[first]) * self._words * 4)
                stream.write(block[first:end].tobytes())
        return found

    def set_units(self, units: Mapping[int, int]) -> None:
        """Give rows to other units; given 0, overwrite the whole row with zeros."""
        width = width_of(self._dimensions)
        with self._open() as stream:
            for row, unit in sorted(units.items()):
                stream.seek(row * self._words * 4 + (width * 4 if unit else 0))
                words = [unit, ~unit & 0xFFFFFFFF] if unit else [0] * self._words
                if not unit:
                    words[width + 1] = 0xFFFFFFFF
                stream.write(np.array(words, dtype=np.uint32).tobytes())

    def trim(self, count: int) -> None:
        """Cut off what a killed writer has left behind the last row."""
        size = count * self._words * 4
        if self.path.exists() and self.path.stat().st_size > size:
            with self._open() as stream:
                stream.truncate(size)

    def flush(self) -> None:
        """Return when the disk has all that was written."""
        with self._open() as stream:
            os.fsync(stream.fileno())

    def load(self, count: int, pending: Mapping[int, int]) -> VectorRows:
        """Map the first rows.

        Args:
            count: How many there are.
            pending: By row, a unit that the file may not say yet; 0 for none.

        Raises:
            DamagedError: The file is gone, too short, or says something else than was written.
        """
        width = width_of(self._dimensions)
        if not count:
            return VectorRows(
                self._dimensions,
                np.zeros((0, width), dtype=np.float32),
                np.zeros(0, dtype=np.int32),
                np.zeros(0, dtype=np.uint64),
            )
        try:
            with self.path.open("rb") as stream:
                size = count * self._words * 4
                mapped = mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            raise DamagedError from None
        if hasattr(mmap, "MADV_WILLNEED"):
            mapped.madvise(mmap.MADV_WILLNEED)
        words = np.frombuffer(mapped, dtype=np.uint32).reshape(count, self._words)
        units = words[:, width].copy()
        sound = units == ~words[:, width + 1]
        for row, unit in pending.items():
            units[row], sound[row] = unit, True
        if not sound.all():
            raise DamagedError
        numbers: npt.NDArray[np.int32] = units.astype(np.int32)
        numbers[numbers == 0] = -1
        tail = np.ascontiguousarray(words[:, width + 2 :])
        vectors = words.view(np.float32)[:, :width]
        return VectorRows(self._dimensions, vectors, numbers, tail.view(np.uint64)[:, 0])

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        """The file, made for its owner alone if there is none."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "r+b") as stream:
                yield stream
        except OSError as error:
            raise CorpusError(
                f"the vectors {self.path} cannot be written ({error.strerror}); see that the disk "
                "has space and that this user may write there, and run it again"
            ) from None


def _runs(rows: Numbers) -> Iterator[tuple[int, int]]:
    """Runs of rows that follow each other: first and last place of each."""
    if not len(rows):
        return
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    yield from zip([0, *breaks.tolist()], [*breaks.tolist(), len(rows)], strict=True)
