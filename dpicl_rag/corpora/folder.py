"""The folder of corpora: where it is, and which files in it are whose."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from platformdirs import user_data_dir

from dpicl_rag.errors import CorpusError

SUFFIX, VECTORS, LOCK = ".corpus", ".vectors", ".lock"
"""Of the file of a corpus, of its vectors, and of what is held locked while several steps go on."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,510}[A-Za-z0-9]")
_LONGEST = 150  # of a file's name, before the suffixes that SQLite puts to it


def local_path(path: str | Path | None) -> Path:
    """A folder in one spelling; the default one if None.

    Raises:
        CorpusError: It is an address.
    """
    if isinstance(path, str) and "://" in path:
        raise CorpusError(
            f"corpora are kept in a folder, and {path} is an address; a Chroma collection is asked "
            f"as chroma:{path}#COLLECTION"
        )
    if path is None:
        path = Path(user_data_dir("dpicl-rag", appauthor=False)) / "corpora"
    return Path(path).expanduser().resolve()


def beside(path: str | Path | None, what: str) -> Path:
    """A folder for what is no part of the corpora but follows from them.

    Args:
        path: Of the corpora; the default one if None.
        what: What is kept there.
    """
    folder = local_path(path)
    return folder.parent / f"{folder.name}-{what}"


def corpus_file(folder: Path, name: str) -> Path:
    """The file of a corpus."""
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return folder / f"{name}{SUFFIX}"


def make_folder(folder: Path) -> None:
    """Make a folder that its owner alone may read, where there is none.

    Raises:
        CorpusError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CorpusError(
            f"the folder {folder} cannot be opened; give one that this user may write to "
            f"({error.strerror})"
        ) from None


def found_file(file: Path) -> os.stat_result:
    """The state of a corpus's file.

    Raises:
        CorpusError: There is none.
    """
    try:
        return file.stat()
    except OSError:
        raise CorpusError(
            f"there is no corpus {file.stem!r} in {file.parent}; ingest the documents again, or "
            "give the folder that it was moved to"
        ) from None


def require_corpus_name(name: str) -> None:
    """Check the name of a corpus.

    Raises:
        CorpusError: It cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise CorpusError(
            "the name of a corpus is 3 to 512 letters, digits, dots, underscores and hyphens, "
            "with a letter or a digit at both ends"
        )
