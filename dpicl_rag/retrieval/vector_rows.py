"""Gridded vectors in rows, each with a checksum and the number of its unit, and a file of them.

Scores are exact on the grid (`dpicl_rag.retrieval.vectors`): a first pass in float32 narrows rows
down, and what is returned follows from exact scores alone.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from dpicl_rag._unobserved import Private
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.stored_record import StoredRecord
from dpicl_rag.retrieval.unit_vectors import UnitVectors
from dpicl_rag.retrieval.vectors import (
    BLOCK,
    NearUnits,
    RowIndices,
    edge,
    exact_scores,
    margin,
    on_grid,
    rough_scores,
)

Mask = npt.NDArray[np.bool_]
Names = Callable[[list[int]], Sequence[str]]
FetchRows = Callable[[Sequence[int]], Mapping[int, StoredRecord]]


_TAIL = 4  # words of 32 bits behind a vector: the unit, its complement, the checksum


Numbers = npt.NDArray[np.int64]


class DamagedError(Exception):
    """A row is not what its checksum says; never leaves this package."""


@dataclass(frozen=True, slots=True, repr=False)
class Near:
    """Units near a question by their numbers, and the exact scores of their best rows."""

    units: npt.NDArray[np.intp]
    scores: npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class VectorRows(Private):
    """Rows as they were when they were read. Private.

    Attributes:
        dimensions: Length of the vectors; 0 where there are none.
        vectors: float32 ``[n, width]``, gridded; columns behind ``dimensions`` are zero.
        unit: Number of each row's unit, int32 ``[n]``; -1 where no question finds it.
        check: Checksum of each row's vector, uint64 ``[n]``.
        checked: First and last row of blocks that were found sound, by this process.
    """

    dimensions: int
    vectors: npt.NDArray[np.float32]
    unit: npt.NDArray[np.int32]
    check: npt.NDArray[np.uint64]
    checked: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def of(cls, vectors: npt.NDArray[np.float32], unit: npt.ArrayLike) -> VectorRows:
        """Rows in memory, of gridded vectors ``[n, d]`` and the numbers of their units."""
        rows = padded(vectors)
        return cls(vectors.shape[1], rows, np.asarray(unit, dtype=np.int32), checksums(rows))

    def trust(self, before: VectorRows) -> None:
        """Take over which blocks were found sound, where their checksums are the same."""
        for first, end in before.checked:
            if end <= len(self.check):
                live = self.unit[first:end] >= 0
                same = self.check[first:end] == before.check[first:end]
                if bool(same[live].all()):
                    self.checked.add((first, end))

    def require_sound(self, first: int, end: int) -> None:
        """Compare rows with their checksums, once.

        Raises:
            DamagedError: One differs.
        """
        if (first, end) not in self.checked:
            live = self.unit[first:end] >= 0
            found = checksums(self.vectors[first:end])
            if not np.array_equal(found[live], self.check[first:end][live]):
                raise DamagedError
            self.checked.add((first, end))

    def unit_vectors(self, names: Mapping[int, str]) -> UnitVectors:
        """All rows, once each was compared with its checksum; see `CheckedRows`.

        Args:
            names: Of the units, by their numbers.

        Raises:
            DamagedError: One differs.
        """
        for first in range(0, len(self.unit), BLOCK):
            self.require_sound(first, min(first + BLOCK, len(self.unit)))
        return UnitVectors(CheckedRows(self), self.unit, names)

    def near(
        self, question: npt.ArrayLike, least: float, most: int | None, allowed: Mask | None
    ) -> Near:
        """Units that `scan` finds, in no order."""
        query = on_grid(np.reshape(question, (1, -1)))[0]
        counts = self.unit >= 0 if allowed is None else (self.unit >= 0) & allowed
        if len(query) != self.dimensions:
            # An error would tell an empty corpus from one that is not.
            rows = np.flatnonzero(counts) if least <= 0 else np.zeros(0, dtype=np.intp)
            return self._best(rows, np.zeros(len(rows)))
        query = self._padded(query)
        rough = rough_scores(self.vectors, query, self.require_sound)
        rough[~counts] = -np.inf
        slack = margin(self.vectors.shape[1])
        if most is not None and len(rough):
            # The edge is rough, too: an exact one is at most a margin below.
            least = max(least, edge(rough, self.unit, most) - slack)
        rows = np.flatnonzero((rough >= np.float64(least - slack)) & counts)
        scores = exact_scores(self.vectors, query, rows)
        reach = scores >= least
        return self._best(rows[reach], scores[reach])

    def scan(
        self,
        question: npt.ArrayLike,
        least: float,
        most: int | None,
        allowed: Mask | None,
        names: Names,
        fetch: FetchRows,
    ) -> NearUnits:
        """Units as `VectorSource.scan` finds them; their texts are fetched when they are chosen.

        Args:
            question: Its embedding.
            least: Least score.
            most: How many of the best suffice; all if None.
            allowed: Rows that count; all if None.
            names: Returns the names of units by their numbers, in the same order.
            fetch: Returns the records of rows, without those that are gone.

        Raises:
            DamagedError: A row is not what was written.
        """
        near = self.near(question, least, most, allowed)

        def passages(places: list[int]) -> list[tuple[StoredRecord, float]]:
            rows = self.rows_of(near.units[places].tolist())
            if allowed is not None:
                rows = rows[allowed[rows]]
            scores = dict(zip(rows.tolist(), self.scores(question, rows).tolist(), strict=True))
            return [(record, scores[row]) for row, record in fetch(list(scores)).items()]

        return NearUnits(names(near.units.tolist()), near.scores, passages)

    def scores(self, question: npt.ArrayLike, rows: RowIndices) -> npt.NDArray[np.float64]:
        """Exact scores of some rows; all are 0 for a question of another length."""
        query = on_grid(np.reshape(question, (1, -1)))[0]
        if len(query) != self.dimensions:
            return np.zeros(len(rows))
        return exact_scores(self.vectors, self._padded(query), rows)

    def rows_of(self, units: Iterable[int]) -> RowIndices:
        """Every row of units, given their numbers."""
        wanted = np.zeros(int(self.unit.max(initial=-1)) + 2, dtype=bool)
        wanted[list(units)] = True
        wanted[-1] = False  # what -1 points to
        return np.flatnonzero(wanted[self.unit])

    def _best(self, rows: RowIndices, scores: npt.NDArray[np.float64]) -> Near:
        units, places = np.unique(self.unit[rows], return_inverse=True)
        best = np.full(len(units), -np.inf)
        np.maximum.at(best, places, scores)
        return Near(units.astype(np.intp), best)

    def _padded(self, query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return np.pad(query, (0, self.vectors.shape[1] - len(query)))


class CheckedRows(Private):
    """Rows of a file as they were numbered; what was overwritten since is zero.

    A row that a deleted unit leaves is given to the next that comes, who must not be read as that
    unit.
    """

    def __init__(self, rows: VectorRows) -> None:
        self._rows = rows

    def __getitem__(self, rows: RowIndices, /) -> npt.NDArray[np.float32]:
        """Vectors of some rows, as a `VectorTable` gives them."""
        found = self._rows.vectors[rows]
        found[checksums(found) != self._rows.check[rows]] = 0.0
        return found[:, : self._rows.dimensions]


class VectorFile(Private):
    """The vectors of a corpus: one file that is mapped, numbered by the rows of its passages.

    A row is a gridded vector, the number of its unit, twice, and a checksum of the vector. Rows
    behind the last that the corpus has committed are nobody's: a writer who is killed leaves them
    to the next one. Units of rows that are there already change after the commit that says so, and
    the corpus keeps saying so until they have reached the disk. Whoever writes holds the corpus for
    writing.
    """

    def __init__(self, path: Path, dimensions: int) -> None:
        self.path = path
        self._dimensions = dimensions
        self._words = width_of(dimensions) + _TAIL

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
        wide = padded(vectors)
        block = np.zeros((len(rows), self._words), dtype=np.uint32)
        block[:, :width] = wide.view(np.uint32)
        block[:, width] = np.asarray(units, dtype=np.uint32)
        block[:, width + 1] = ~block[:, width]
        checks = checksums(wide)
        block[:, width + 2 :] = checks.view(np.uint32).reshape(-1, 2)
        with self._open() as stream:
            for first, end in _runs(rows):
                stream.seek(int(rows[first]) * self._words * 4)
                stream.write(block[first:end].tobytes())
        return checks

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


def width_of(dimensions: int) -> int:
    """Columns of rows: even, for checksums read two at a time."""
    return dimensions + dimensions % 2


def padded(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Vectors ``[n, d]`` in rows of an even width."""
    rows = np.zeros((len(vectors), width_of(vectors.shape[1])), dtype=np.float32)
    rows[:, : vectors.shape[1]] = vectors
    return rows


def checksums(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """Of each row of an even width: the sum of its bits, read as integers of 64."""
    if not vectors.size:
        return np.zeros(len(vectors), dtype=np.uint64)
    found: npt.NDArray[np.uint64] = vectors.view(np.uint64).sum(axis=1, dtype=np.uint64)
    return found


def _runs(rows: Numbers) -> Iterator[tuple[int, int]]:
    """Runs of rows that follow each other: first and last place of each."""
    if not len(rows):
        return
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    yield from zip([0, *breaks.tolist()], [*breaks.tolist(), len(rows)], strict=True)
