"""Folders of images with labels. No image is opened here, so none is found to be damaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from dpicl_rag.documents import Document, Origin
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.characters import characters_of
from dpicl_rag.loaders.identities import key_form
from dpicl_rag.loaders.records import LoadReport, LoadResult, Skipped

SUFFIXES = (".jpg", ".jpeg", ".png")
"""Endings of the names of images, in any case."""


def load_images(path: str | Path) -> LoadResult:
    """Documents from a folder with a folder of images for each label: ``cats/tom.jpg``.

    A document's text is its label, and its image the path of the file. An image is a unit of its
    own. A folder inside a label's folder is one unit, and so are folders of the same name under
    several labels: ``healthy/patient-7/1.png`` and ``ill/patient-7/2.png`` are protected together.

    Files are known by their names alone. One that turns out to be damaged or huge when it is read
    (`dpicl_rag.vision`) counts as an image that is not there, without notice. So a folder
    without images is no error, and one that cannot be read costs its own images alone.

    Args:
        path: The folder.

    Returns:
        Documents in the order of their names, and the report. Metadata: label, file.

    Raises:
        LoaderError: The path is no folder.
    """
    root = Path(path)
    if not root.is_dir():
        raise LoaderError(f"{root} is no folder; give one with a folder of images for each label")
    entries = list(_entries(root))
    documents = [entry for entry in entries if isinstance(entry, Document)]
    skipped = tuple(entry for entry in entries if isinstance(entry, Skipped))
    return LoadResult(documents, LoadReport(len(entries), len(documents), skipped))


def _entries(root: Path) -> Iterator[Document | Skipped]:
    """Entries of a folder, its files before its folders."""
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(root.joinpath(*inside)) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            yield Skipped(_shown(inside), reasons.UNREADABLE_FOLDER)
            continue
        folders: list[tuple[str, ...]] = []
        for entry in entries:
            parts = (*inside, entry.name)
            if _holds(entry.is_dir, follow_symlinks=False):
                folders.append(parts)
            else:
                yield _entry(entry, parts)
        waiting += reversed(folders)


def _holds(test: Callable[..., bool], **options: bool) -> bool:
    """The outcome of a test of a file; False where it cannot be found out."""
    try:
        return test(**options)
    except OSError:
        return False


def _entry(entry: os.DirEntry[str], parts: tuple[str, ...]) -> Document | Skipped:
    """A file as a document."""
    if _holds(entry.is_symlink):
        return Skipped(_shown(parts), reasons.LINK)
    file = Path(entry.path)
    if len(parts) == 1 or file.suffix.lower() not in SUFFIXES:
        return Skipped(_shown(parts), reasons.UNSUPPORTED)
    name = _identity("/".join(parts))
    unit = _identity(parts[1]) if len(parts) > 2 else name
    origin = Origin("folder or document", record=name)
    return Document(parts[0], unit, {"label": parts[0], "file": _shown(parts)}, origin, file)


def _shown(parts: tuple[str, ...]) -> str:
    """A path that prints: names are bytes to the system, and some are no UTF-8."""
    return characters_of("/".join(parts))[0]


def _identity(name: str) -> str:
    """One name for all ways of writing it, and for no other: see `identities.key_form`."""
    shown, exact = characters_of(name)
    form = key_form(shown)
    return f"{form} [{exact}]" if exact else form
