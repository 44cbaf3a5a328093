"""Pictures for the pseudo-name task: a folder of the user's own, or the benchmark's archive."""

from __future__ import annotations

import hashlib
import os
import random
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.loaders.image_folders import SUFFIXES, load_images
from dpicl_research.tasks import DATA_VARIABLE

_BENCHMARK = "images_grocery.tar.gz"
_HELD_OUT = 5  # of a class without a test half, every fifth picture is a query


@dataclass(frozen=True, slots=True, repr=False)
class ImageTask:
    """Pictures of some classes; public benchmark data.

    Attributes:
        name: What reports call it.
        pool: Where examples are drawn from; a document's text is its class.
        test: Where queries are drawn from, of the same classes.
    """

    name: str
    pool: tuple[Document, ...]
    test: tuple[Document, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(sorted({document.text for document in self.pool}))

    def digest(self) -> str:
        """A hash of all pictures and their classes."""
        found = hashlib.sha256()
        for document in (*self.pool, *self.test):
            image = document.image
            content = image.read_bytes() if isinstance(image, Path) else image or b""
            found.update(f"{document.text} ".encode() + hashlib.sha256(content).digest())
        return found.hexdigest()[:16]


def load_image_task(source: Path | None = None) -> ImageTask:
    """A task from a folder, or from an archive of such a folder.

    Args:
        source: A folder with a folder of pictures for each class, or with two such folders called
            ``train`` and ``test``; or a tar file of the latter. Without halves a fifth of each
            class, drawn with a fixed seed, is held out for queries. None takes the benchmark's
            groceries from the folder of ``DPICL_RAG_DATA``.

    Raises:
        ConfigurationError: There is no benchmark data, or fewer than two classes with pictures in
            both halves.
        LoaderError: The archive cannot be read.
    """
    if source is None:
        data = os.environ.get(DATA_VARIABLE)
        if not data:
            raise ConfigurationError(
                f"give a folder of pictures, or set {DATA_VARIABLE} to the folder with {_BENCHMARK}"
            )
        source = Path(data) / _BENCHMARK
    if source.is_file():
        pool, test = _archive(source)
    elif all((source / half).is_dir() for half in ("train", "test")):
        pool, test = (load_images(source / half).documents for half in ("train", "test"))
    else:
        pool, test = _halves(load_images(source).documents)
    both = {d.text for d in pool} & {d.text for d in test}
    if len(both) < 2:
        raise ConfigurationError(
            f"{source}: the task needs at least two classes with pictures to learn from and "
            "others to ask about"
        )
    kept = (tuple(d for d in half if d.text in both) for half in (pool, test))
    return ImageTask(source.name.split(".")[0], *kept)


def _halves(documents: list[Document]) -> tuple[list[Document], list[Document]]:
    random.Random(0).shuffle(documents)  # noqa: S311
    seen: Counter[str] = Counter()
    pool: list[Document] = []
    test: list[Document] = []
    for document in documents:
        (pool if seen[document.text] % _HELD_OUT else test).append(document)
        seen[document.text] += 1
    return pool, test


def _archive(path: Path) -> tuple[list[Document], list[Document]]:
    halves: dict[str, list[Document]] = {"train": [], "test": []}
    try:
        with tarfile.open(path) as archive:
            for member in sorted(archive.getmembers(), key=lambda member: member.name):
                half, *label, _ = ("", *Path(member.name).parts)[-3:]
                stream = archive.extractfile(member) if member.isfile() else None
                if half in halves and stream and member.name.lower().endswith(SUFFIXES):
                    document = Document(label[0], member.name, image=stream.read())
                    halves[half].append(document)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise LoaderError(
            f"{path}: not an archive that can be read ({type(error).__name__})"
        ) from None
    return halves["train"], halves["test"]
