"""A database by its path: whichever file has that name now."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from dpicl_rag.files.database import Database, FileKind


class NamedFile:
    """Opens the file of a name anew when another one stands there.

    An open file lives on when it is removed: what its owner has taken away would go on being read,
    and what is written would be nowhere.

    Args:
        path: The file, absolute, with symbolic links resolved.
        kind: What it is.
        find: Its state now; makes the file or raises where there is none.
        busy_timeout: Seconds to wait for another process.

    Raises:
        DPICLError: Of the kind: the file cannot be used.
    """

    def __init__(
        self,
        path: Path,
        kind: FileKind,
        find: Callable[[Path], os.stat_result],
        *,
        busy_timeout: float,
    ) -> None:
        self.path = path
        self._kind = kind
        self._find = find
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._opened: tuple[Database, tuple[int, int]] | None = None
        self._closed = False
        self.now()

    def now(self) -> Database:
        """The database that has the name now.

        Raises:
            DPICLError: Of the kind: the file cannot be used.
        """
        # Without the lock where nothing has changed: a child of a fork may find it taken for ever.
        return self._current() or self._anew()

    def close(self) -> None:
        """Close it; later calls raise the error of the kind."""
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened[0].close()

    def _current(self) -> Database | None:
        """The open database, if it still has the name."""
        if self._opened is None:
            return None
        database, file = self._opened
        return database if self._closed or self._named() == file else None

    def _anew(self) -> Database:
        with self._lock:
            if (current := self._current()) is not None:
                return current
            if self._opened is not None:
                # Forgotten before its number can be another file's.
                former, self._opened = self._opened, None
                former[0].close()
            file = self._named()
            opened = Database(self.path, self._kind, busy_timeout=self._busy_timeout)
            try:
                opened.make_ready()
            except BaseException:
                opened.close()
                raise
            self._opened = opened, file
            return opened

    def _named(self) -> tuple[int, int]:
        found = self._find(self.path)
        return found.st_dev, found.st_ino
