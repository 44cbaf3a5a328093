"""Rows of a private table, read for a release: no error reveals anything of them.

A release is public, and so is every error before it. What is refused here follows from the path,
the name of the file and the first row of a CSV table, which names its columns. JSON Lines have no
such row: a column that nobody has a value in is empty, and what is released of it is noise.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.loaders.loader import load
from dpicl_rag.loaders.streams import open_stream
from dpicl_rag.loaders.table_files import columns_of

_CSV, _JSON = (".csv", ".tsv"), (".jsonl", ".ndjson")


def load_private_table(
    path: str | Path,
    columns: Iterable[str],
    *,
    unit: str = "document",
    text_field: str | None = None,
) -> list[Document]:
    """Rows as documents, each with its columns as metadata.

    A row that cannot be read, or has no value for the unit, is left out. A table without any is
    empty, as it would be had that row never come.

    Args:
        path: A CSV or JSON Lines file, which may be compressed as ``.gz``.
        columns: Public names of those that are needed.
        unit: As for ``load``.
        text_field: As for ``load``.

    Raises:
        LoaderError: There is no such file, it cannot be opened, or it is no table by its name.
        ConfigurationError: A CSV table has no such column by its first row.
    """
    check_private_table(path, columns, unit=unit)
    return load(Path(path), unit=unit, text_field=text_field).documents


def check_private_table(
    path: str | Path, columns: Iterable[str], *, unit: str = "document"
) -> None:
    """Refuse all that `load_private_table` refuses; no row but a CSV table's first one is read.

    Args:
        path: As there.
        columns: As there.
        unit: As there.

    Raises:
        LoaderError: As there.
        ConfigurationError: As there.
    """
    file = Path(path)
    suffix = Path(file.name.lower().removesuffix(".gz")).suffix
    if suffix not in (*_CSV, *_JSON):
        raise LoaderError(
            f"{file} is no table by its name; give a file that ends in "
            f"{', '.join((*_CSV, *_JSON))}, or in one of these and .gz"
        )
    if not file.is_file():
        raise LoaderError(f"{file} does not exist, or is no file")
    if suffix in _CSV:
        _require_columns(file, [*columns, *({unit} - {"document"})])


def _require_columns(file: Path, wanted: Sequence[str]) -> None:
    try:
        with open_stream(file) as stream:
            found = columns_of(stream)
    except (OSError, EOFError, zlib.error) as error:
        reason = isinstance(error, OSError) and error.strerror
        raise LoaderError(f"{file} cannot be read: {reason or 'it is damaged'}") from None
    if not found:
        raise ConfigurationError(
            f"{file} is empty, or its first row cannot be read; begin it with a row that names the "
            f"columns: {','.join(wanted)}"
        )
    for name in wanted:
        if name not in found:
            raise ConfigurationError(
                f"the table has no column {name!r}; name one that stands in its first row"
            )
