"""Corpora that an older version has kept in Chroma: their names, and the line for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpicl_rag.errors import CorpusError
from dpicl_rag.stores.chroma import EMBEDDER_FIELD
from dpicl_rag.stores.chroma_client import guarded, opened

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

_PAGE = 100  # collections named at a time


def refuse_old(name: str, folder: Path) -> None:
    """Refuse to make or open a corpus that an older version has kept.

    Args:
        name: Of the corpus.
        folder: Where a Chroma database is.

    Raises:
        CorpusError: It has.
        MissingDependencyError: Only Chroma can tell, and is not installed.
    """
    with guarded(), opened(folder) as client:
        there = name in old_names(client)
    if there:
        raise CorpusError(
            f"corpus {name!r} was kept in Chroma by an older version; bring it over once, with all "
            f"that its units have spent: `dpicl-rag ingest --from-chroma {folder} --corpus {name}`"
        )


def old_names(client: ClientAPI) -> set[str]:
    """Names of the corpora in a database."""
    names: set[str] = set()
    first = 0
    while page := client.list_collections(limit=_PAGE, offset=first):
        first += len(page)
        names.update(one.name for one in page if EMBEDDER_FIELD in (one.metadata or {}))
    return names
