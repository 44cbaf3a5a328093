"""A folder of the store that its owner alone may read.

Chroma makes its files as the umask says, which often lets everybody read them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from uuid import UUID

DATABASE_FILE = "chroma.sqlite3"
FILES = "dpicl-rag."
"""Prefix of this library's own files in the folder."""
LOCK_FILE = FILES + "lock"

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(folder: Path) -> None:
    """Take from others every right to what a store keeps in a folder.

    The database, its journal, the lock and the folders of indexes become their owner's alone. So
    does the folder itself where nothing else lies in it; one that holds other things, or is sticky
    like ``/tmp``, is shared on purpose and keeps its mode. What belongs to another user is left
    as it is.

    Args:
        folder: Where the store is, or is about to be; it exists.

    Raises:
        OSError: A mode cannot be changed.
    """
    _create_database(folder)
    shared = False
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_stores(entry):
                _close(Path(entry))
            else:
                shared = True
    if not shared and not folder.stat().st_mode & stat.S_ISVTX:
        _close(folder)


def _create_database(folder: Path) -> None:
    """Make an empty database if there is none: its journals get the mode that it has."""
    try:
        os.close(os.open(folder / DATABASE_FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return


def _is_stores(entry: os.DirEntry[str]) -> bool:
    if entry.is_symlink():
        return False
    return is_index(entry) or (not entry.is_dir() and entry.name.startswith((DATABASE_FILE, FILES)))


def is_index(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of the folder is one of Chroma's indexes of vectors."""
    return entry.is_dir(follow_symlinks=False) and _is_uuid(entry.name)


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def _close(path: Path) -> None:
    try:
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
    except FileNotFoundError:
        return  # a journal that is done with
