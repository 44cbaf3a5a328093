"""Indexes that Chroma was killed over while it wrote them.

Chroma writes an index in place, every so many writes. Whoever is killed meanwhile leaves one that
Chroma refuses, or that ends the process which loads it (its issue 7238). So before anything that
may write one, the sizes and times of its files are noted. A note that nobody took away is a killed
process's; an index that differs from it may be torn, and is made anew before it is loaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from dpicl_rag.files.private_folder import DATABASE_FILE, FILES, is_index

_NOTE = FILES + "writing"
_HEADER = "header.bin"  # what is written first
_BORN = {_HEADER, "data_level0.bin", "length.bin", "link_lists.bin"}
_ELEMENTS = slice(20, 28)  # of the header: how many the index holds
_OF_INDEX = """
SELECT collections.name
FROM segments
JOIN collections ON collections.id = segments.collection
JOIN databases ON databases.id = collections.database_id
WHERE segments.id = ? AND databases.name = ? AND databases.tenant_id = ?
"""

_Files = list[list[object]]


class Note:
    """What the indexes in a folder were when somebody began to write. Use it under the lock.

    Args:
        folder: Of a local database.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / _NOTE

    def take(self) -> None:
        """Note what is there now; indexes known to be torn stay so."""
        self._save(self.torn(), self._indexes())

    def drop(self) -> None:
        """Nothing is written any more."""
        torn, _ = self._saved()
        if torn:
            self._save(torn, self._indexes())
        else:
            self._path.unlink(missing_ok=True)

    def torn(self) -> set[str]:
        """Names of the folders of indexes that may be torn."""
        torn, before = self._saved()
        if before is None:
            return torn
        return torn | {
            name
            for name, files in self._indexes().items()
            if files != before.get(name) and not self._unwritten(name, before.get(name, []))
        }

    def renew(self) -> None:
        """Note what was written since the last note as whole."""
        self._save(self._saved()[0], self._indexes())

    def mended(self, index: str) -> None:
        """An index is torn no more."""
        self._save(self._saved()[0] - {index}, self._indexes())

    def collection(self, index: str, place: tuple[str, str]) -> str | None:
        """Name of the collection that an index is of; None if it is in another place, or gone."""
        uri = (self._folder / DATABASE_FILE).as_uri() + "?mode=ro"
        with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as tables:
            found = tables.execute(_OF_INDEX, (index, *place)).fetchone()
            return None if found is None else str(found[0])
        return None

    def _unwritten(self, name: str, before: _Files) -> bool:
        """Whether an index never held anything: all its vectors are in the log.

        Chroma makes the files of such an index anew whenever it opens it.
        """
        folder = self._folder / name
        if {path.name for path in folder.iterdir()} != _BORN:
            return False
        if not {file for file, *_ in before} <= _BORN:
            return False
        return (folder / _HEADER).read_bytes()[_ELEMENTS] == bytes(8)

    def _saved(self) -> tuple[set[str], dict[str, _Files] | None]:
        try:
            saved = json.loads(self._path.read_text())
            return set(saved["torn"]), saved["indexes"]
        except (OSError, ValueError, KeyError, TypeError):
            return set(), None

    def _save(self, torn: set[str], indexes: dict[str, _Files]) -> None:
        part = self._path.with_name(_NOTE + ".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            json.dump({"torn": sorted(torn), "indexes": indexes}, stream)
        part.replace(self._path)

    def _indexes(self) -> dict[str, _Files]:
        with os.scandir(self._folder) as entries:
            return {entry.name: _files(entry.path) for entry in entries if is_index(entry)}


def _files(folder: str) -> _Files:
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.stat()) for entry in entries]
    return sorted([name, stat.st_mtime_ns, stat.st_size] for name, stat in found)
