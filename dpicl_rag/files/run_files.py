"""Files of a run that a kill at any instant leaves whole: one writer, whole files, whole lines."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from dpicl_rag.errors import ConfigurationError, DPICLError

_LOCK = ".lock"


@contextmanager
def alone_in(folder: Path, busy: str, beginnings: Sequence[str] = ()) -> Iterator[None]:
    """Make a folder and be the only process that writes there.

    A folder that was made here is taken away again where what is written there is refused before
    anything is in it.

    Args:
        folder: Of the run.
        busy: What the error says that another process does there.
        beginnings: Names of files that are nothing by themselves; they go with the folder.

    Raises:
        ConfigurationError: The folder cannot be made, or another process is there.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK, timeout=0)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise ConfigurationError(f"{folder}: {busy}") from None
    except OSError as error:
        raise ConfigurationError(f"{folder}: no folder can be made there") from error
    try:
        yield
    except DPICLError:
        if made:
            _take_away(made, {*beginnings, _LOCK})
        raise
    finally:
        lock.release()


@contextmanager
def scratch_folder(what: str) -> Iterator[Path]:
    """A private folder that goes with the block; one that a killed process left goes before it."""
    from filelock import FileLock, Timeout

    place, name = Path(gettempdir()), f"dpicl-rag-{what}-"
    for left in (one for one in place.glob(f"{name}*") if one.is_dir()):
        with suppress(OSError, Timeout), FileLock(f"{left}.lock", timeout=0):
            shutil.rmtree(left)
            Path(f"{left}.lock").unlink()
    folder = place / f"{name}{secrets.token_hex(16)}"
    # Held before there is a folder: nobody takes it for one that was left.
    with FileLock(f"{folder}.lock"):
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):  # some systems keep a file that is open
                Path(f"{folder}.lock").unlink()


def _take_away(made: Sequence[Path], nothing: Set[str]) -> None:
    """Remove folders that were made, the innermost first, if it has no files but some.

    The lock is held: nobody else begins there before its file is gone.
    """
    with suppress(OSError):  # some systems keep a file that is open, such as the lock
        found = list(made[0].iterdir())
        if {file.name for file in found} <= nothing:
            for file in found:
                file.unlink()
            for folder in made:
                folder.rmdir()


def write_whole(file: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file at once: it is there whole, and on the disk, or as it was.

    Args:
        file: What is written.
        content: All of it.
        mode: Rights, less the umask.
    """
    draft = file.with_name(file.name + ".new")
    draft.unlink(missing_ok=True)  # left by a process that was killed here
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
    if os.name == "posix":  # the name, too, must be on the disk
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_line(file: Path, line: Mapping[str, Any]) -> None:
    """Add a line of JSON; it is on the disk when this returns."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line, separators=(",", ":")) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def whole_lines(file: Path) -> tuple[list[bytes], int]:
    """The lines that were written to their end, and how many bytes they take up."""
    content = file.read_bytes() if file.exists() else b""
    lines = content.splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # the run was killed while it wrote this line
    return lines, sum(map(len, lines))


def cut_tail(file: Path, whole: int) -> None:
    """Drop what stands behind the first ``whole`` bytes, so that lines can be added."""
    if file.exists() and file.stat().st_size != whole:
        with file.open("r+b") as stream:
            stream.truncate(whole)
            os.fsync(stream.fileno())
