"""Folders of images with labels. No image is opened here, so none is found to be damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dpicl_rag.documents import Document, Origin
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders.records import LINK, UNSUPPORTED
from dpicl_rag.loaders.report import LoadReport, LoadResult, Skipped

SUFFIXES = (".jpg", ".jpeg", ".png")
"""How the names of images end, in any case."""


def load_images(path: str | Path) -> LoadResult:
    """Documents from a folder with a folder of images for each label: ``cats/tom.jpg``.

    A document's text is its label, and its image the path of the file. An image is a unit of its
    own. A folder inside a label's folder is one unit, and so are folders of the same name under
    several labels: ``healthy/patient-7/1.png`` and ``ill/patient-7/2.png`` are protected together.

    Files are known by their names alone. One that turns out to be damaged or huge when it is read
    (`dpicl_rag.vision`) counts as an image that is not there, and nobody is told.

    Args:
        path: The folder.

    Returns:
        Documents in the order of their names, and the report. Metadata: label, file.

    Raises:
        LoaderError: The path is no folder, cannot be read, or holds no images below a label.
    """
    root = Path(path)
    if not root.is_dir():
        raise LoaderError(f"{root} is no folder; give one with a folder of images for each label")
    try:
        entries = list(_entries(root))
    except OSError as error:
        raise LoaderError(f"{root} cannot be read: {error.strerror}") from None
    documents = [entry for entry in entries if isinstance(entry, Document)]
    if not documents:
        raise LoaderError(
            f"{root} holds no images; give a folder with a folder for each label, and in these "
            f"files that end in {', '.join(SUFFIXES)}"
        )
    skipped = tuple(entry for entry in entries if isinstance(entry, Skipped))
    return LoadResult(documents, LoadReport(len(entries), len(documents), skipped))


def _entries(root: Path) -> Iterator[Document | Skipped]:
    for folder, folders, files in os.walk(root, onerror=_fail):
        here = Path(folder)
        links = {name for name in (*folders, *files) if (here / name).is_symlink()}
        folders[:] = sorted(set(folders) - links)
        inside = here.relative_to(root).parts
        for name in sorted(files + sorted(links - set(files))):
            position = "/".join((*inside, name))
            # Names are bytes to the system; one that is no UTF-8 must still be a unit and print.
            shown = position.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            if name in links:
                yield Skipped(shown, LINK)
            elif not inside or Path(name).suffix.lower() not in SUFFIXES:
                yield Skipped(shown, UNSUPPORTED)
            else:
                label = inside[0]
                unit = inside[1] if len(inside) > 1 else shown
                origin = Origin("folder or document", record=shown)
                yield Document(label, unit, {"label": label, "file": shown}, origin, here / name)


def _fail(error: OSError) -> None:
    raise error
