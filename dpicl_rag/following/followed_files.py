"""Files and folders, followed: a corpus is brought up to date with what lies there now."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Literal

from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.adding import Ingested
from dpicl_rag.corpora.holdings import Held, Holding, StoredSource
from dpicl_rag.documents import Document
from dpicl_rag.errors import LoaderError
from dpicl_rag.following.outcome import Brought, delete_gone, most_is_gone
from dpicl_rag.language_models.base import Progress
from dpicl_rag.loaders import load
from dpicl_rag.loaders.characters import fingerprint
from dpicl_rag.loaders.records import TableHeader, on_one_line
from dpicl_rag.loaders.shared_keys import Joins, standing_name
from dpicl_rag.loaders.sources import shown

KIND = "files"


@dataclass(frozen=True, slots=True)
class FileSource:
    """Paths that are loaded together, and how. Of their owner.

    Attributes:
        paths: The paths, in one spelling.
        unit: As for ``load``.
        text_field, key_field, spam, header, delimiter, records: As for ``load``.
    """

    paths: tuple[str, ...]
    unit: str | None = None
    text_field: str | None = None
    key_field: str | None = None
    spam: bool = False
    header: TableHeader | Literal[False] = None
    delimiter: str | None = None
    records: str | None = None

    @property
    def name(self) -> str:
        """The paths, as messages name them."""
        return ", ".join(self.paths)

    @property
    def id(self) -> str:
        """The name of the source in a corpus: however it is read, it is one."""
        return fingerprint(json.dumps([KIND, *sorted(self.paths)]))[:16]

    @property
    def source(self) -> StoredSource:
        """As a corpus keeps it."""
        return StoredSource(self.id, KIND, json.dumps(astuple(self)))

    @classmethod
    def at(
        cls,
        paths: Iterable[str | Path],
        unit: str | None = None,
        text_field: str | None = None,
        key_field: str | None = None,
        spam: bool = False,
        header: TableHeader | Literal[False] = None,
        delimiter: str | None = None,
        records: str | None = None,
    ) -> FileSource:
        """The source at paths, wherever a later process runs."""
        resolved = tuple(str(Path(path).resolve()) for path in paths)
        return cls(resolved, unit, text_field, key_field, spam, header, delimiter, records)

    @classmethod
    def of(cls, source: StoredSource) -> FileSource:
        """The source that a corpus follows."""
        paths, *how = json.loads(source.spec)
        return cls(tuple(paths), *how)

    def held(self, documents: Sequence[Document]) -> tuple[list[Document], Held]:
        """Documents that name their places, and these places: see `standing_name`."""
        placed, holdings = [], {}
        for document in documents:
            origin = document.origin
            id = f"{self.id} {standing_name(document)}"
            holdings[id] = Holding(id, self.id, origin.place, origin.record)
            placed.append(replace(document, origin=replace(origin, place=id)))
        return placed, Held(self.source, list(holdings.values()))


def bring_files(
    target: Corpus,
    files: FileSource,
    add: Callable[[Sequence[Document], Held], Ingested],
    *,
    joins: Joins = "ask",
    deletions: bool = False,
    before_deleting: Callable[[set[str]], None] = lambda units: None,
    on_progress: Progress | None = None,
) -> Brought:
    """Bring a corpus up to date with paths: what is new, what was edited, and what is gone.

    Args:
        target: The corpus.
        files: The paths.
        add: Adds documents with their places.
        joins: As for ``load``.
        deletions: That more than half of what was there may be gone.
        before_deleting: Called before anything is deleted, with the units that lose something.
        on_progress: As for ``load``.

    Raises:
        LoaderError: A path cannot be read, or nothing of a file that is there; what was read of it
            stays, and all else was done.
        MostGoneError: More than half of what was there is gone, or all of a path. What is new was
            added, and nothing deleted.
        CorpusError: See `Corpus.add`.
    """
    how = asdict(files)
    loaded = load(how.pop("paths"), **how, joins=joins, on_progress=on_progress)
    documents, held = files.held(loaded.documents)
    before = target.followed.held(files.id)
    now = {one.id for one in held.holdings}
    records = {one.known_by for one in held.holdings if one.known_by}
    # `ingest` brings back what was forgotten; what may run by a timer does not.
    out = target.followed.forgotten(files.id)
    read = set(map(_file, held.holdings))
    missing = [one for one in before if one.id not in now]
    lost = {_file(one) for one in missing if one.part and one.id not in out} - read
    # What is there and cannot be read for now is not gone.
    unread = set() if deletions else set(filter(_may_be_there, lost))
    gone = {one.id for one in missing if _file(one) not in unread}
    # An edited record is there.
    left = {one.document for one in before if one.id not in gone or one.known_by in records}
    is_most = most_is_gone(target.followed.whose(files.id), left) or any(
        _is_empty(Path(path), lost - unread, read | unread) for path in files.paths
    )
    added = add(
        [document for document in documents if document.origin.place not in out],
        replace(held, holdings=[one for one in held.holdings if one.id not in out]),
    )
    deleted = delete_gone(
        target.followed,
        files.id,
        files.name,
        gone,
        most=is_most,
        allowed=deletions,
        before_deleting=before_deleting,
    )
    if unread:
        raise LoaderError(
            f"{on_one_line(shown(min(unread)))} is there and holds nothing that can be read now, "
            "so what was read of it stays; make it readable, or add --deletions"
        )
    known = now.intersection(one.id for one in before)
    return Brought(
        files.name,
        there=loaded.report.read,
        read=loaded.report.read,
        known=len(known),
        skipped=loaded.report.skipped,
        passages=added.passages,
        deleted=deleted,
        joins=added.joins,
        withheld=added.withheld,
    )


def _file(holding: Holding) -> Path:
    """The file of what is held; of a sheet its number stands behind it."""
    return Path(os.fsdecode(bytes.fromhex(holding.part.partition(" ")[0])))


def _may_be_there(file: Path) -> bool:
    """Test for a file that the system does not say is gone; packed it may be the same text."""
    for ending in ("", ".gz", ".GZ"):
        try:
            os.lstat(f"{file}{ending}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            pass
        return True
    return False


def _is_empty(path: Path, lost: Iterable[Path], read: Iterable[Path]) -> bool:
    """Test for a path that has lost all that it held, as one that is not mounted has."""
    return any(file.is_relative_to(path) for file in lost) and not any(
        file.is_relative_to(path) for file in read
    )
