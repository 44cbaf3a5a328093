"""Sources of a load: the paths that are given, and the files in them with their kinds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.loaders.characters import characters
from dpicl_rag.loaders.file_kinds import FileFormat, kind_of
from dpicl_rag.loaders.load_report import Skipped
from dpicl_rag.loaders.records import LINK, UNREADABLE_FOLDER

SUPPORTED = (
    "mbox, maildir, .eml, .csv, .tsv, .json, .jsonl, text and HTML files, and with the extra "
    "`files` .pdf, .docx, .pptx, .xlsx, .ods, .odt, .rtf, .epub and .msg, each also as .gz"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read.

    Attributes:
        path: The file.
        kind: What it holds, or None if that is not supported.
        folder: The directory that is loaded; None for a file loaded by itself.
    """

    path: Path
    kind: FileFormat | None
    folder: Path | None = None

    @property
    def name(self) -> str:
        """Its name, inside the directory that is loaded."""
        return shown(self._name)

    @property
    def exact(self) -> str:
        """Mark that separates its name from equal readings; see ``Record.exact``."""
        return characters(os.fsencode(self._name))[1]

    @property
    def _name(self) -> Path:
        return self.path.relative_to(self.folder) if self.folder else Path(self.path.name)


def find_sources(path: Path) -> Iterator[Source | Skipped]:
    """The file itself, or every file below a directory in the order of their names.

    A link inside the directory is skipped: it may lead out of what the owner named, or to a text
    that is there already, which would then be two units. The path itself may be one.

    A directory that holds ``cur`` and ``new`` is a maildir: what lies in these two is mail
    whatever its name, and what lies in ``tmp`` is still being delivered and not looked at. What
    cannot be listed is skipped.
    """
    if not path.is_dir():
        yield Source(path, kind_of(path))
        return
    unread: list[OSError] = []
    for folder, folders, files in os.walk(path, onerror=unread.append):
        yield from _unreadable(unread, path)
        here = Path(folder)
        if {"cur", "new"} <= set(folders):
            folders[:] = [name for name in folders if name != "tmp"]
        links = [name for name in (*folders, *files) if os.path.islink(here / name)]
        for name in sorted(links):
            yield Skipped(shown((here / name).relative_to(path)), LINK)
        folders[:] = sorted(set(folders) - set(links))
        in_maildir = here.name in ("cur", "new") and all(
            os.path.isdir(here.parent / name) for name in ("cur", "new")
        )
        for name in sorted(set(files) - set(links)):
            file = here / name
            kind: FileFormat | None = None
            # A pipe or a socket would block the load for ever.
            if os.path.isfile(file):
                kind = "eml" if in_maildir else kind_of(file)
            yield Source(file, kind, path)
    yield from _unreadable(unread, path)


def shown(path: Path) -> str:
    """A path as characters. To the system names are bytes; any of them must print in a report."""
    return characters(os.fsencode(path))[0]


def _unreadable(errors: list[OSError], path: Path) -> Iterator[Skipped]:
    """The directories that could not be listed, once."""
    for error in errors:
        where = Path(error.filename)
        yield Skipped(shown(where.relative_to(path)), UNREADABLE_FOLDER)
    errors.clear()


def existing_paths(given: object) -> list[Path]:
    """Paths that are there, in the order given.

    Args:
        given: A path, or several.

    Raises:
        LoaderError: One does not exist or cannot be read, or lies in another: what is read twice
            would be two units.
        ConfigurationError: What is given is no path.
    """
    one = isinstance(given, str | os.PathLike)
    if not one and (isinstance(given, bytes) or not isinstance(given, Iterable)):
        raise _no_path(given)
    paths = [_path(item) for item in ([given] if one else list(given))]  # type: ignore[call-overload]
    if not paths:
        raise ConfigurationError("load was given no path; name a file or a directory")
    for path in paths:
        _require(path)
    # In this order, what holds a path comes before it.
    places = sorted((path.resolve(), at) for at, path in enumerate(paths))
    for (holder, first), (inner, second) in pairwise(places):
        if inner.is_relative_to(holder):
            raise LoaderError(
                f"{shown(paths[second])} is named twice, as itself and by {shown(paths[first])}; "
                "name it once"
            )
    return paths


def _path(item: object) -> Path:
    if isinstance(item, str | os.PathLike):
        path = os.fspath(item)
        if isinstance(path, str):
            return Path(path)
    raise _no_path(item)


def _no_path(item: object) -> ConfigurationError:
    return ConfigurationError(
        f"load takes the path of a file or a directory, or a list of paths, not "
        f"{type(item).__name__}; hand documents that are there over to Corpus.add"
    )


def _require(path: Path) -> None:
    try:
        if path.is_dir():
            next(path.iterdir(), None)
        elif path.is_file():
            path.open("rb").close()
        else:
            raise LoaderError(f"{shown(path)} does not exist, or is neither a file nor a directory")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no valid path"
        raise LoaderError(f"{shown(path)} cannot be read: {reason}") from None
