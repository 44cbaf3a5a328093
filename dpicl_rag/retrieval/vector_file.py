"""A file of gridded vectors that is mapped, not read, and grown, not rewritten.

Beside a store lie two files: the vectors, a row for each record, and what is known of the rows,
which is small and replaced as a whole. A row that is gone is overwritten with zeros first, then
the rows file is replaced; a row that came is written behind the last one first. So whatever
instant a process is killed at, each row that the rows file knows is what its checksum says, or it
was about to go. Both files are as private as the documents.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, overload
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from dpicl_rag.files.private_folder import FILES
from dpicl_rag.retrieval import scoring
from dpicl_rag.retrieval.vectors import on_grid

_FORMAT = 1
_ROWS, _VECTORS = ".rows", ".vectors"
_FIELDS = ("number", "stamp", "unit", "check")
_SPARE = 1000  # dead rows that are kept in any case

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


class DamagedError(Exception):
    """A row is not what its checksum says; never leaves this package."""


class Strings(Sequence[str]):
    """Many short texts in one block of bytes."""

    def __init__(self, ends: Numbers, block: bytes) -> None:
        self.ends = ends
        self.block = block

    @classmethod
    def of(cls, texts: Iterable[str]) -> Strings:
        """Pack texts."""
        coded = [text.encode("utf-8", "surrogatepass") for text in texts]
        ends = np.cumsum([len(text) for text in coded], dtype=np.int64)
        return cls(ends, b"".join(coded))

    def __repr__(self) -> str:
        return "Strings(<private>)"

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        first = self.ends[place - 1] if place else 0
        return self.block[first : self.ends[place]].decode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True, repr=False)
class Near:
    """Units near a question: places of their names, and the exact scores of their best rows."""

    units: npt.NDArray[np.intp]
    scores: npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Mapped:
    """Rows of a file, as they were when they were read. Private.

    Attributes:
        version: Of the store, when the rows were what it holds.
        dimensions: Length of the vectors; 0 before the first.
        number: The store's own number of each row's record; -1 where there is none any more.
        stamp: The write that the row is from, int64 ``[n]``.
        unit: Place of its unit's name, int32 ``[n]``; -1 where no question finds it.
        check: Checksum of its vector, uint64 ``[n]``.
        names: Of the units.
        ids: The store's own names of the records, or none.
        vectors: float32 ``[n, width]``, gridded; columns behind ``dimensions`` are zero.
        file: Name of the file that they are in.
        checked: Blocks that were found sound, by this process.
    """

    version: str
    dimensions: int
    number: Numbers
    stamp: Numbers
    unit: npt.NDArray[np.int32]
    check: npt.NDArray[np.uint64]
    names: Strings
    ids: Strings
    vectors: npt.NDArray[np.float32]
    file: str
    checked: set[tuple[int, int]] = field(default_factory=set)

    def __repr__(self) -> str:
        return "Mapped(<private>)"

    @property
    def live(self) -> Mask:
        """Rows whose record is there."""
        return self.number >= 0

    def require_sound(self, first: int, end: int) -> None:
        """Compare rows with their checksums, once.

        Raises:
            DamagedError: One differs.
        """
        if (first, end) not in self.checked:
            found = _checksums(self.vectors[first:end])
            if not np.array_equal(
                found[self.live[first:end]], self.check[first:end][self.live[first:end]]
            ):
                raise DamagedError
            self.checked.add((first, end))

    def require_all_sound(self) -> None:
        """`require_sound` for every row.

        Raises:
            DamagedError: One differs.
        """
        for first in range(0, len(self.number), scoring.BLOCK):
            self.require_sound(first, min(first + scoring.BLOCK, len(self.number)))

    def near(
        self, question: npt.ArrayLike, least: float, most: int | None, allowed: Mask | None
    ) -> Near:
        """Units as `VectorSource.scan` finds them, in no order.

        Args:
            question: Its embedding.
            least: Least score.
            most: How many of the best suffice; all if None.
            allowed: Rows that count; all if None.

        Raises:
            DamagedError: The file is not what was written.
        """
        query = on_grid(np.reshape(question, (1, -1)))[0]
        counts = self.unit >= 0 if allowed is None else (self.unit >= 0) & allowed
        if len(query) != self.dimensions:
            # As `Snapshot.scores`: an error would tell an empty corpus from one that is not.
            rows = np.flatnonzero(counts) if least <= 0 else np.zeros(0, dtype=np.intp)
            return self._best(rows, np.zeros(len(rows)))
        query = self._padded(query)
        rough = scoring.rough_scores(self.vectors, query, self.require_sound)
        rough[~counts] = -np.inf
        slack = scoring.margin(self.vectors.shape[1])
        if most is not None and len(rough):
            # The edge is rough, too: an exact one is at most a margin below.
            least = max(least, scoring.edge(rough, self.unit, most) - slack)
        rows = np.flatnonzero((rough >= np.float64(least - slack)) & counts)
        scores = scoring.exact_scores(self.vectors, query, rows)
        reach = scores >= least
        return self._best(rows[reach], scores[reach])

    def scores(self, question: npt.ArrayLike, rows: scoring.Rows) -> npt.NDArray[np.float64]:
        """Exact scores of some rows; see `Snapshot.scores`."""
        query = on_grid(np.reshape(question, (1, -1)))[0]
        if len(query) != self.dimensions:
            return np.zeros(len(rows))
        return scoring.exact_scores(self.vectors, self._padded(query), rows)

    def rows_of(self, units: Iterable[int]) -> scoring.Rows:
        """Every row of units, given the places of their names."""
        wanted = np.zeros(len(self.names) + 1, dtype=bool)  # the last one is what -1 points to
        wanted[list(units)] = True
        return np.flatnonzero(wanted[self.unit])

    def _best(self, rows: scoring.Rows, scores: npt.NDArray[np.float64]) -> Near:
        units, places = np.unique(self.unit[rows], return_inverse=True)
        best = np.full(len(units), -np.inf)
        np.maximum.at(best, places, scores)
        return Near(units.astype(np.intp), best)

    def _padded(self, query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return np.pad(query, (0, self.vectors.shape[1] - len(query)))


class VectorFile:
    """The two files of one collection.

    Args:
        folder: Where they lie; it exists.
        key: Names the collection; letters, digits and hyphens.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder
        self.key = key
        self._rows = folder / (FILES + key + _ROWS)

    def state(self) -> tuple[int, ...] | None:
        """A value that differs after a change; None if there is no file."""
        try:
            found = self._rows.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def written_at(self) -> float:
        """When the rows were last replaced, in seconds since the epoch; 0 if never."""
        try:
            return self._rows.stat().st_mtime
        except OSError:
            return 0.0

    def load(self, before: Mapped | None = None) -> Mapped | None:
        """What was written last, or None: there is nothing, or it is damaged.

        Args:
            before: What was loaded before; blocks of it that were found sound need no second look.
        """
        try:
            with self._rows.open("rb") as stream, np.load(stream, allow_pickle=False) as saved:
                head = json.loads(str(saved["head"]))
                if head["format"] != _FORMAT:
                    return None
                arrays = {name: saved[name] for name in _FIELDS}
                names = Strings(saved["name_ends"], saved["names"].tobytes())
                ids = Strings(saved["id_ends"], saved["ids"].tobytes())
            vectors = self._map(head["file"], len(arrays["number"]), head["dimensions"])
        except MemoryError:
            raise
        except Exception:  # zip and array readers fail at damaged bytes in a dozen ways
            return None
        found = Mapped(
            head["version"], head["dimensions"], **arrays,
            names=names, ids=ids, vectors=vectors, file=head["file"],
        )  # fmt: skip
        if before is not None and before.file == found.file:
            known = before.check[: len(found.check)]
            for first, end in before.checked:
                if end <= len(known):
                    live = found.live[first:end]
                    if np.array_equal(found.check[first:end][live], known[first:end][live]):
                        found.checked.add((first, end))
        return found

    def change(self, before: Mapped | None) -> Change:
        """Begin a change of what was loaded; None to begin anew. One at a time."""
        return Change(self, before)

    def clear_away(self, but: str = "") -> None:
        """Remove files of vectors that no rows are known of."""
        for path in self.folder.glob(f"{FILES}{self.key}.*"):
            if path != self._rows and path.name != but:
                path.unlink(missing_ok=True)

    def clear_away_others(self, keys: Set[str]) -> None:
        """Remove the files of collections that are no more.

        Args:
            keys: What the keys begin with, up to the first dot, of those that are there.
        """
        for path in self.folder.glob(f"{FILES}*.*.*"):
            if path.name.removeprefix(FILES).partition(".")[0] not in keys:
                path.unlink(missing_ok=True)

    def path_of(self, file: str) -> Path:
        """Where a file of vectors lies."""
        return self.folder / file

    def save(self, rows: Mapped) -> None:
        """Replace the rows file at once."""
        head = {
            "format": _FORMAT, "version": rows.version, "dimensions": rows.dimensions,
            "file": rows.file,
        }  # fmt: skip
        temporary = self._rows.with_name(f"{FILES}{self.key}.{uuid4().hex}.part")
        try:
            with _private(temporary) as stream:
                np.savez(
                    stream,
                    head=np.array(json.dumps(head)),
                    **{name: getattr(rows, name) for name in _FIELDS},
                    name_ends=rows.names.ends,
                    names=np.frombuffer(rows.names.block, dtype=np.uint8),
                    id_ends=rows.ids.ends,
                    ids=np.frombuffer(rows.ids.block, dtype=np.uint8),
                )
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(self._rows)
        finally:
            temporary.unlink(missing_ok=True)

    def _map(self, file: str, count: int, dimensions: int) -> npt.NDArray[np.float32]:
        width = _width(dimensions)
        if count * width == 0:
            return np.zeros((count, width), dtype=np.float32)
        with self.path_of(file).open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), count * width * 4, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_WILLNEED"):
            mapped.madvise(mmap.MADV_WILLNEED)
        return np.frombuffer(mapped, dtype=np.float32).reshape(count, width)


def keys_of(folder: Path, collection: str) -> set[str]:
    """Keys of the files of a collection, which begin with its identifier and a dot."""
    found = (path.name.removeprefix(FILES) for path in folder.glob(f"{FILES}{collection}.*"))
    return {".".join(name.split(".")[:2]) for name in found}


def remove_files(folder: Path, key: str) -> None:
    """Remove the files of a key, or of all that begin with a collection's identifier."""
    for path in folder.glob(f"{FILES}{key}.*"):
        path.unlink(missing_ok=True)


class Change:
    """A change of a file: rows that go, rows that come, then `commit`. Use it under a lock.

    Args:
        file: What is changed.
        before: What was loaded from it; None to begin anew.
    """

    def __init__(self, file: VectorFile, before: Mapped | None) -> None:
        self._file = file
        self._before = before
        self._gone: Mask | None = None
        self._dimensions = 0 if before is None else before.dimensions
        self._name = f"{FILES}{file.key}.{uuid4().hex}{_VECTORS}"
        self._kept = 0
        if before is not None and before.dimensions:
            self._name, self._kept = before.file, len(before.number)
        self._numbers: list[Numbers] = []
        self._stamps: list[Numbers] = []
        self._checks: list[npt.NDArray[np.uint64]] = []
        self._units: list[str | None] = []
        self._ids: list[str] = []

    def remove(self, gone: Mask) -> None:
        """Forget rows of what was loaded: their vectors are overwritten by `commit`."""
        self._gone = gone

    def append(
        self,
        numbers: npt.ArrayLike,
        stamps: npt.ArrayLike,
        units: Sequence[str | None],
        vectors: npt.NDArray[np.float32],
        ids: Sequence[str] = (),
    ) -> None:
        """Write rows behind the others.

        Args:
            numbers: Of the records, at least 0.
            stamps: Of the writes that they are from.
            units: Their units; None where no question may find a record.
            vectors: Gridded (see `on_grid`), shape ``[n, d]``.
            ids: The store's own names of the records, if they are to be kept.

        Raises:
            DamagedError: The vectors are of another length than those that are there.
        """
        if not len(vectors):
            return
        self._dimensions = self._dimensions or vectors.shape[1]
        if vectors.shape[1] != self._dimensions:
            raise DamagedError
        width = _width(self._dimensions)
        block = np.zeros((len(vectors), width), dtype=np.float32)
        block[:, : self._dimensions] = vectors
        with _private(self._file.path_of(self._name)) as stream:
            stream.seek((self._kept + len(self._units)) * width * 4)
            stream.write(block.tobytes())
        self._numbers.append(np.asarray(numbers, dtype=np.int64))
        self._stamps.append(np.asarray(stamps, dtype=np.int64))
        self._checks.append(_checksums(block))
        self._units.extend(units)
        self._ids.extend(ids)

    def commit(self, version: str) -> Mapped:
        """Make the change durable.

        Args:
            version: Of the store that the rows are now those of.

        Returns:
            The rows.
        """
        rows = self._joined(version)
        if self._before is not None and self._gone is not None and self._gone.any():
            self._overwrite(np.flatnonzero(self._gone))
        if self._dimensions:
            with _private(self._file.path_of(self._name)) as stream:
                # What a killed process wrote behind the last row goes, too.
                stream.truncate(len(rows.number) * _width(self._dimensions) * 4)
                os.fsync(stream.fileno())
        self._file.save(rows)
        loaded = self._file.load(self._before)
        if loaded is None:
            raise OSError("what was written cannot be read")
        if len(loaded.number) > 2 * loaded.live.sum() + _SPARE:
            return self._compacted(loaded)
        self._file.clear_away(but=loaded.file)
        return loaded

    def _joined(self, version: str) -> Mapped:
        before = self._before
        number, stamp, check = self._numbers, self._stamps, self._checks
        unit = np.zeros(0, dtype=np.int32)
        names: list[str] = []
        ids: list[str] = []
        if before is not None and self._kept:
            gone = self._gone if self._gone is not None else np.zeros(self._kept, dtype=bool)
            number = [np.where(gone, -1, before.number), *number]
            stamp = [np.where(gone, 0, before.stamp), *stamp]
            check = [np.where(gone, np.uint64(0), before.check), *check]
            kept = np.where(gone, -1, before.unit)
            if len(before.ids):
                ids = ["" if lost else id for id, lost in zip(before.ids, gone, strict=True)]
            # A name goes with the last row of its unit.
            used, places = np.unique(kept[kept >= 0], return_inverse=True)
            names = [before.names[place] for place in used.tolist()]
            unit = np.full(self._kept, -1, dtype=np.int32)
            unit[kept >= 0] = places
        places_of = {name: place for place, name in enumerate(names)}
        new = [
            -1 if name is None else places_of.setdefault(name, len(places_of))
            for name in self._units
        ]
        return Mapped(
            version,
            self._dimensions,
            _stacked(number, np.int64),
            _stacked(stamp, np.int64),
            np.concatenate([unit, np.array(new, dtype=np.int32)]),
            _stacked(check, np.uint64),
            Strings.of(places_of),
            Strings.of([*ids, *self._ids]),
            np.zeros((0, 0), dtype=np.float32),
            self._name,
        )

    def _overwrite(self, rows: scoring.Rows) -> None:
        width = _width(self._dimensions)
        with _private(self._file.path_of(self._name)) as stream:
            for row in rows.tolist():
                stream.seek(row * width * 4)
                stream.write(bytes(width * 4))
            stream.flush()
            os.fsync(stream.fileno())

    def _compacted(self, rows: Mapped) -> Mapped:
        """Write the live rows alone into a new file."""
        anew = Change(self._file, None)
        live = np.flatnonzero(rows.live)
        for first in range(0, len(live), scoring.BLOCK):
            some = live[first : first + scoring.BLOCK]
            units = [
                rows.names[place] if place >= 0 else None for place in rows.unit[some].tolist()
            ]
            ids = [rows.ids[row] for row in some.tolist()] if len(rows.ids) else ()
            anew.append(
                rows.number[some], rows.stamp[some], units,
                rows.vectors[some, : rows.dimensions], ids,
            )  # fmt: skip
        return anew.commit(rows.version)


def _width(dimensions: int) -> int:
    """Columns of a file: even, for checksums read two at a time."""
    return dimensions + dimensions % 2


def _checksums(block: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """Of each row: the sum of its bits, read as integers of 64."""
    if not block.size:
        return np.zeros(len(block), dtype=np.uint64)
    found: npt.NDArray[np.uint64] = block.view(np.uint64).sum(axis=1, dtype=np.uint64)
    return found


def _stacked(parts: Sequence[npt.NDArray[Any]], kind: type) -> npt.NDArray[Any]:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, dtype=kind)


@contextlib.contextmanager
def _private(path: Path) -> Iterator[BinaryIO]:
    """A file of the owner's alone, made if there is none, for reading and writing."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as stream:
        yield stream
