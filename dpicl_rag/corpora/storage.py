"""The two files of a corpus, read, searched and written together.

The transaction of the SQLite file is the commit. Vectors reach the disk before it, behind the rows
that the corpus has or in rows that are nobody's. What changes in rows that are somebody's, their
units and their end, is pending in the transaction and written after it, by whoever comes next where
the process is killed in between. So whatever instant that is, a question finds what was committed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from dpicl_rag._unobserved import Private
from dpicl_rag.corpora.contents import CORPUS, Contents, Embedded
from dpicl_rag.corpora.folder import LOCK, VECTORS, found_file
from dpicl_rag.errors import CorpusError
from dpicl_rag.files.database import Database, NamedFile
from dpicl_rag.files.tables import pages
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import MetadataFilter, StoredRecord
from dpicl_rag.retrieval.unit_vectors import UnitVectors
from dpicl_rag.retrieval.vector_rows import DamagedError, Mask, VectorFile, VectorRows, checksums
from dpicl_rag.retrieval.vectors import NearUnits, on_grid

T = TypeVar("T")

PATIENCE_S = 120.0  # for another process that writes
_BATCH = 64  # passages embedded at a time
_ATTEMPTS = 5  # at a scan that no writer comes into


class ChangedError(Exception):
    """The corpus is not what it was; never leaves this package."""


@dataclass(frozen=True, slots=True, repr=False)
class CorpusState(Private):
    """The rows of a corpus, as they were at one moment. Private."""

    version: int
    file: tuple[int, int]
    rows: VectorRows

    def is_seen(self, connection: sqlite3.Connection) -> bool:
        """Test for a transaction that sees the version which the rows were read from."""
        return Contents(connection).size().version == self.version


class Storage:
    """A corpus's files. Threads and processes may share them.

    Attributes:
        chosen: What was chosen once, when the corpus was made: questions and changes are refused
            where another stands under its name, which may be private where this one was public.

    Raises:
        CorpusError: It cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        # Questions have a connection of their own: they do not wait for a writer of this process.
        self._files: dict[Literal["reading", "writing"], NamedFile] = {}
        self._state: CorpusState | None = None
        self.chosen: Mapping[str, Any] = {}
        self._opened("reading")

    def __repr__(self) -> str:
        return f"Storage({str(self.path)!r})"

    def read(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``action`` on what is committed.

        Raises:
            CorpusError: The file is gone or damaged.
        """
        return self._opened("reading").read(action)

    def write(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``action`` in a transaction, and let every question see what it did.

        Raises:
            CorpusError: The file cannot be written; nothing was changed.
        """

        def transaction(connection: sqlite3.Connection) -> T:
            contents = Contents(connection)
            self._require_same(contents)
            self._settle(contents)
            result = action(connection)
            contents.renew()
            return result

        result = self._opened("writing").write(transaction)
        self._apply()
        return result

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep out others who change the corpus in several transactions, also other processes.

        A document is placed in a unit in one transaction and stored in a later one. Were units
        joined or forgotten in between, it would be stored in a unit that is no more.

        Raises:
            CorpusError: Another holds it for long, the corpus is gone, or its folder cannot be
                written.
        """
        found_file(self.path)  # no lock makes a folder anew
        lock = FileLock(self.path.with_suffix(LOCK), timeout=PATIENCE_S, mode=0o600)
        try:
            lock.acquire()
        except Timeout:
            raise CorpusError(
                f"another command is filling corpus {self.path.stem!r}; run this again when that "
                "has ended"
            ) from None
        except OSError as error:
            raise CorpusError(
                f"the folder {self.path.parent} cannot be written; check its permissions "
                f"({error.strerror})"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def store(
        self,
        documents: Iterable[Embedded],
        also: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Add documents with their vectors, in one transaction."""
        documents = list(documents)

        def work(connection: sqlite3.Connection) -> None:
            contents = Contents(connection)
            size = contents.size()
            file = self._file(size.dimensions or documents[0][1].shape[1])
            free: list[int] = []
            if size.passages < size.rows:
                with suppress(DamagedError):  # a question mends it; until then none is taken again
                    rows = file.load(size.rows, contents.pending())
                    free = np.flatnonzero(rows.unit < 0).tolist()
            contents.store(documents, file, free)
            if also is not None:
                also(connection)
            file.flush()

        if documents:
            self.write(work)

    def state(self, embedder: Embedder | None) -> CorpusState:
        """The rows as they are now; what is damaged is mended first.

        Args:
            embedder: What mends; None where nothing may be written.

        Raises:
            CorpusError: The file is gone, or is damaged and its texts do not mend it.
            DamagedError: It is damaged, and nothing mends it.
        """
        held = self._state
        now = found_file(self.path)
        file = now.st_dev, now.st_ino
        version = self.read(lambda c: Contents(c).size().version)
        if held is not None and (held.version, held.file) == (version, file):
            return held
        with self._lock:
            try:
                state = self._loaded(file)
            except DamagedError:
                if embedder is None:
                    raise
                self.mend(embedder)
                state = self._loaded(file)
            if held is not None and held.file == file:
                state.rows.trust(held.rows)
            self._state = state
            return state

    def scan(
        self,
        embedder: Embedder,
        question: npt.ArrayLike,
        least: float,
        most: int | None,
        filter: MetadataFilter | None,
    ) -> NearUnits:
        """Find units near a question; see `Corpus.scan`.

        What is found is of one moment, whoever writes meanwhile.

        Args:
            embedder: What mends vectors that are damaged.
            question: Its embedding.
            least: Least cosine of a unit's best passage.
            most: Of these units, how many of the best suffice; all if None.
            filter: On the fields of documents.

        Raises:
            CorpusError: The corpus cannot be read.
        """

        def scanned(state: CorpusState) -> NearUnits:
            allowed: Mask | None = None
            if filter is not None:
                rows = self._read_at(state, lambda c: Contents(c).allowed(filter))
                allowed = np.zeros(len(state.rows.unit), dtype=bool)
                allowed[rows] = True
            known: dict[int, str] = {}

            def names(numbers: list[int]) -> list[str]:
                known.update(self._read_at(state, lambda c: Contents(c).units(numbers)))
                if len(known) < len(numbers):
                    raise DamagedError
                return [known[number] for number in numbers]

            def fetch(rows: Sequence[int]) -> dict[int, StoredRecord]:
                return self._fetched(state, known, rows)

            return state.rows.scan(question, least, most, allowed, names, fetch)

        return self._on_rows(embedder, scanned)

    def unit_vectors(self, embedder: Embedder) -> UnitVectors:
        """Vectors of all passages; see `Corpus.unit_vectors`. A unit that is deleted later is zero.

        Raises:
            CorpusError: The corpus cannot be read.
        """

        def named(state: CorpusState) -> UnitVectors:
            return state.rows.unit_vectors(self._read_at(state, lambda c: Contents(c).names()))

        return self._on_rows(embedder, named)

    def mend(self, embedder: Embedder) -> None:
        """Embed again what the file of vectors has lost, and write it anew.

        Raises:
            CorpusError: The vectors that come out are not those that were there.
        """
        self._state = None

        def work(connection: sqlite3.Connection) -> None:
            contents = Contents(connection)
            _, dimensions, count, _ = contents.size()
            if not count:
                return
            file = self._file(dimensions)
            held = contents.records()
            numbers = contents.numbers({record.unit for record, _ in held.values()})
            sound = self._sound(file, {row: check for row, (_, check) in held.items()})
            empty = [row for row in range(count) if row not in held]
            file.set_units(dict.fromkeys(empty, 0))
            for batch in pages([row for row in held if row not in sound], _BATCH):
                vectors = on_grid(embedder.embed([held[row][0].text for row in batch]))
                units = [numbers[held[row][0].unit] for row in batch]
                checks = file.write(np.array(batch, dtype=np.int64), vectors, units)
                if checks.view(np.int64).tolist() != [held[row][1] for row in batch]:
                    raise CorpusError(
                        f"the vectors of {self.path} are damaged, and this embedder makes others; "
                        "restore the corpus from a backup, or ingest its documents into a new one"
                    )
            file.set_units({row: numbers[held[row][0].unit] for row in held})
            file.flush()

        self._opened("writing").write(work)

    def erase(self) -> None:
        """Forget all documents, and give their space back; what is known of keys stays."""
        with self.changing():
            self.write(lambda connection: Contents(connection).clear())
            self.path.with_suffix(VECTORS).unlink(missing_ok=True)
            self._opened("writing").shrink()
            self.flush()

    def flush(self) -> None:
        """Let no log beside the file hold what was deleted."""
        self._opened("writing").flush()

    def close(self) -> None:
        """Release the files; what is used again is opened again."""
        with self._lock:
            self._state = None
            while self._files:
                self._files.popitem()[1].close()

    def _read_at(self, state: CorpusState, action: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``action`` on what a state was read from.

        Raises:
            ChangedError: That is no more.
        """

        def now(connection: sqlite3.Connection) -> T:
            if not state.is_seen(connection):
                raise ChangedError
            return action(connection)

        return self.read(now)

    def _on_rows(self, embedder: Embedder, work: Callable[[CorpusState], T]) -> T:
        """Work on the rows as they are at one moment, once they are sound."""

        def attempt(mended_by: Embedder | None) -> T:
            state = self.state(mended_by)
            try:
                return work(state)
            except DamagedError:
                # A row that was deleted meanwhile is overwritten, and no damage.
                self._read_at(state, lambda connection: None)
                raise

        for _ in range(_ATTEMPTS):
            try:
                return attempt(embedder)
            except DamagedError:
                self.mend(embedder)
            except ChangedError:
                pass
        # Somebody writes all the time, and waits now.
        try:
            return self._opened("writing").write(lambda connection: attempt(None))
        except (DamagedError, ChangedError):
            raise self._damaged() from None

    def _fetched(
        self, state: CorpusState, names: Mapping[int, str], rows: Sequence[int]
    ) -> dict[int, StoredRecord]:
        """Passages that are still what was scored, by their rows."""
        now, held = self.read(lambda c: (state.is_seen(c), Contents(c).records(rows)))
        checks = state.rows.check.view(np.int64)
        records = {
            row: record
            for row, (record, check) in held.items()
            if check == checks[row] and record.unit == names[int(state.rows.unit[row])]
        }
        if now and len(records) < len(rows):
            raise self._damaged()
        return records

    def _require_same(self, contents: Contents) -> None:
        meta = contents.meta() if self.chosen else {}
        if any(meta.get(name) != value for name, value in self.chosen.items()):
            raise CorpusError(
                f"corpus {self.path.stem!r} was deleted, or made anew as another, since it was "
                "opened; open it again, or restart what uses it"
            )

    def _damaged(self) -> CorpusError:
        return CorpusError(f"the corpus {self.path} is damaged; restore it from a backup")

    def _opened(self, use: Literal["reading", "writing"]) -> Database:
        # Without the lock where it is open: a child of a fork may find it taken for ever.
        file = self._files.get(use)
        if file is None:
            with self._lock:
                file = self._files.get(use)
                if file is None:
                    file = NamedFile(self.path, CORPUS, found_file, busy_timeout=PATIENCE_S)
                    self._files[use] = file
        return file.now()

    def _file(self, dimensions: int) -> VectorFile:
        return VectorFile(self.path.with_suffix(VECTORS), dimensions)

    def _loaded(self, file: tuple[int, int]) -> CorpusState:
        def work(connection: sqlite3.Connection) -> CorpusState:
            contents = Contents(connection)
            self._require_same(contents)
            size = contents.size()
            rows = self._file(size.dimensions).load(size.rows, contents.pending())
            return CorpusState(size.version, file, rows)

        return self.read(work)

    def _settle(self, contents: Contents) -> None:
        """Before another change: the file of vectors says all that was committed."""
        pending = contents.pending()
        size = contents.size()
        if pending:
            file = self._file(size.dimensions)
            file.set_units(pending)
            file.flush()
            contents.settled()
        if size.rows:
            self._file(size.dimensions).trim(size.rows)

    def _apply(self) -> None:
        """After a commit: what it changed in rows that are somebody's."""

        def work(connection: sqlite3.Connection) -> None:
            contents = Contents(connection)
            self._file(contents.size().dimensions).set_units(contents.pending())

        if self.read(lambda connection: Contents(connection).pending()):
            # While no other writes: rows that are nobody's may be another's by then.
            self._opened("writing").write(work)

    def _sound(self, file: VectorFile, checks: dict[int, int]) -> set[int]:
        """Rows whose vectors are what the corpus says they are."""
        try:
            whole = file.load(max(checks, default=-1) + 1, dict.fromkeys(checks, 1))
        except DamagedError:
            return set()
        found = checksums(whole.vectors).view(np.int64)
        return {row for row, check in checks.items() if found[row] == check}
