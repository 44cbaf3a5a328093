"""Vectors of another program's store, held in memory or in files of ours that are mapped.

They are read as a whole, so the files are written as a whole: the vectors first, under a new name,
then what is known of the rows, which names them and takes the place of what was there at once.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, ClassVar, overload
from uuid import uuid4

import numpy as np
import numpy.typing as npt
from platformdirs import user_cache_dir

from dpicl_rag._unobserved import Private
from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.retrieval.base import unit_key
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import (
    Defect,
    StoredRecord,
    comparable_rows,
    find_defects,
    vector_length,
)
from dpicl_rag.retrieval.vector_rows import (
    DamagedError,
    FetchRows,
    Mask,
    VectorRows,
    checksums,
    padded,
    width_of,
)
from dpicl_rag.retrieval.vectors import ExactSource, NearUnits, Where, on_grid

_FORMAT = 2
_ROWS, _VECTORS, _PART = ".rows", ".vectors", ".part"

Page = tuple[Sequence[str], Sequence[str | None], npt.NDArray[np.float32]]
"""Ids, units and gridded vectors of records; a unit is None where no question may find it."""


class Strings(Sequence[str], Private):
    """Many short texts in one block of bytes."""

    def __init__(self, ends: npt.NDArray[np.int64], block: bytes) -> None:
        self.ends = ends
        self.block = block

    @classmethod
    def of(cls, texts: Iterable[str]) -> Strings:
        """Pack texts."""
        coded = [text.encode("utf-8", "surrogatepass") for text in texts]
        ends = np.cumsum([len(text) for text in coded], dtype=np.int64)
        return cls(ends, b"".join(coded))

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
class Cached(Private):
    """A collection as it was read. Private.

    Attributes:
        version: Of the collection, when it was read.
        read_at: When that was, in seconds since the epoch.
        rows: Vectors; units are places in ``names``.
        names: Of the units.
        ids: Of the records, in the order of the rows.
    """

    version: str
    read_at: float
    rows: VectorRows
    names: Sequence[str]
    ids: Sequence[str]

    @classmethod
    def in_memory(cls, pages: Iterable[Page]) -> Cached:
        """A collection whose vectors stay in memory; see `CachedVectors.write`."""
        ids: list[str] = []
        units: list[str | None] = []
        blocks: list[npt.NDArray[np.float32]] = [np.zeros((0, 0), dtype=np.float32)]
        for some, own, vectors in pages:
            ids += some
            units += own
            blocks.append(vectors)
        names = sorted({one for one in units if one is not None}, key=unit_key)
        numbers = {name: at for at, name in enumerate(names)}
        vectors = np.concatenate(blocks[1:] or blocks)
        rows = VectorRows.of(vectors, [-1 if one is None else numbers[one] for one in units])
        return cls("", 0.0, rows, names, ids)

    def scan(
        self,
        question: npt.ArrayLike,
        least: float,
        most: int | None,
        allowed: Mask | None,
        fetch: FetchRows,
    ) -> NearUnits:
        """Units near a question; see `VectorRows.scan`."""
        return self.rows.scan(question, least, most, allowed, self._named, fetch)

    def _named(self, units: list[int]) -> list[str]:
        return [self.names[unit] for unit in units]


class CachedVectors(Private):
    """The two files of one collection.

    Args:
        folder: Where they lie: that of the database, or `cache_folder`.
        key: Names the collection; letters, digits and hyphens.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder
        self.key = f"dpicl-rag.{key}"
        self._rows = self.folder / (self.key + _ROWS)

    def load(self) -> Cached | None:
        """The rows that were written last, or None: there is nothing, or it is damaged."""
        try:
            read_at = self._rows.stat().st_mtime
            with self._rows.open("rb") as stream, np.load(stream, allow_pickle=False) as saved:
                head = json.loads(str(saved["head"]))
                if head["format"] != _FORMAT:
                    return None
                unit, check = saved["unit"], saved["check"]
                names = Strings(saved["name_ends"], saved["names"].tobytes())
                ids = Strings(saved["id_ends"], saved["ids"].tobytes())
            vectors = self._mapped(head["file"], len(unit), width_of(head["dimensions"]))
            rows = VectorRows(head["dimensions"], vectors, unit, check)
            return Cached(head["version"], read_at, rows, names, ids)
        except MemoryError:
            raise
        except Exception:  # zip and array readers fail at damaged bytes in a dozen ways
            return None

    def write(
        self,
        version: str,
        pages: Iterable[Page],
    ) -> Cached:
        """Keep a collection in the place of what was there.

        Raises:
            CorpusError: The files cannot be written, or vectors are of several lengths.
        """
        file = f"{self.key}.{uuid4().hex}{_VECTORS}"
        ids: list[str] = []
        places: dict[str, int] = {}
        units: list[int] = []
        checks = [np.zeros(0, dtype=np.uint64)]
        dimensions = 0
        with _writing(self.folder / file) as stream:
            for some, names, vectors in pages:
                if not len(vectors):
                    continue
                dimensions = dimensions or vectors.shape[1]
                if vectors.shape[1] != dimensions:
                    raise CorpusError("the collection has vectors of several lengths")
                block = padded(vectors)
                stream.write(block.tobytes())
                checks.append(checksums(block))
                ids.extend(some)
                units.extend(
                    -1 if name is None else places.setdefault(name, len(places)) for name in names
                )
        head = {"format": _FORMAT, "version": version, "dimensions": dimensions, "file": file}
        packed, named = Strings.of(ids), Strings.of(places)
        part = self.folder / f"{self.key}.{uuid4().hex}{_PART}"
        with _writing(part) as stream:
            np.savez(
                stream,
                head=np.array(json.dumps(head)),
                unit=np.array(units, dtype=np.int32),
                check=np.concatenate(checks),
                name_ends=named.ends,
                names=np.frombuffer(named.block, dtype=np.uint8),
                id_ends=packed.ends,
                ids=np.frombuffer(packed.block, dtype=np.uint8),
            )
        part.replace(self._rows)
        for other in self.folder.glob(f"{self.key}.*"):  # those of killed writers, too
            if other.suffix in (_VECTORS, _PART) and other.name != file:
                other.unlink(missing_ok=True)
        if (found := self.load()) is None:
            raise CorpusError(f"what was written in {self.folder} cannot be read; see its disk")
        return found

    def is_damaged(self, cached: Cached) -> bool:
        """Test for a row that is not what was written."""
        try:
            cached.rows.require_sound(0, len(cached.rows.unit))
        except DamagedError:
            return True
        return False

    def _mapped(self, file: str, count: int, width: int) -> npt.NDArray[np.float32]:
        if count * width == 0:
            return np.zeros((count, width), dtype=np.float32)
        with (self.folder / file).open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), count * width * 4, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, dtype=np.float32).reshape(count, width)


def cache_folder() -> Path:
    """The folder of collections' vectors: its owner's alone, as the documents are.

    Raises:
        CorpusError: It cannot be made.
    """
    folder = Path(user_cache_dir("dpicl-rag", appauthor=False)) / "collections"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as error:
        raise CorpusError(
            f"{folder} cannot be written; give this user a cache folder, for example by "
            f"XDG_CACHE_HOME ({error.strerror})"
        ) from None
    return folder


@contextmanager
def _writing(path: Path) -> Iterator[BinaryIO]:
    """A new file of the owner's alone; on the disk when the block ends, gone where it fails."""
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(made, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CorpusError(
                f"{path.parent} cannot be written ({error.strerror}); free some space there"
            ) from None
        raise


@dataclass(frozen=True, repr=False)
class InMemoryVectors(ExactSource, Private):
    """A `VectorSource` over a store that is read anew for each search.

    Attributes:
        embedder: The model that the store was filled with.
        read: Returns every record that the store holds now, with its vector; see `record_of`.
        unit_field: Metadata field that it reads the unit from.
    """

    name: ClassVar[None] = None

    embedder: Embedder
    read: Callable[[], Iterable[tuple[StoredRecord | Defect, Sequence[float]]]]
    unit_field: str | None = None

    def _near(
        self, question: npt.ArrayLike, least: float, most: int | None, where: Where | None
    ) -> NearUnits:
        if where is not None:
            raise ConfigurationError("where needs a Chroma collection; keep the documents in one")
        rows = [
            (record, vector) for record, vector in self.read() if isinstance(record, StoredRecord)
        ]
        records = [record for record, _ in rows]
        vectors = on_grid(comparable_rows([vector for _, vector in rows], self._length))
        held = Cached.in_memory([([], [record.unit for record in records], vectors)])
        return held.scan(
            question, least, most, None, lambda chosen: {row: records[row] for row in chosen}
        )

    def check(self) -> list[Defect]:
        """Records that questions do not find, and why. For the owner: the list is private."""
        return find_defects(self.read(), self.embedder)

    @cached_property
    def _length(self) -> int:
        return vector_length(self.embedder)
