"""Rows of a public file: CSV or JSON Lines, plain or gzipped, a row per item."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from dpicl_rag.errors import ConfigurationError

KINDS = (".csv", ".jsonl", ".csv.gz", ".jsonl.gz")


def is_task_file(name: str) -> bool:
    """Test for a name that is meant as a file and not as that of a known task."""
    return name.lower().endswith(KINDS)


def read_rows(path: Path, what: str = "task file") -> list[Mapping[str, object]]:
    """Rows of a file, values by column.

    Args:
        path: A ``.csv`` or ``.jsonl`` file, or one of them gzipped.
        what: What errors call it.

    Raises:
        ConfigurationError: The file is missing, of another kind, damaged, or empty; names the
            line.
    """
    if not is_task_file(path.name):
        raise ConfigurationError(f"{path}: a {what} ends in {', '.join(KINDS)}")
    try:
        reader = _csv if ".csv" in path.name.lower() else _jsonl
        with _open(path) as stream:
            rows = list(reader(path, stream))
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such {what}") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path}: the {what} cannot be read ({type(error).__name__})"
        ) from error
    if not rows:
        first = "; a CSV file names its columns in its first row" if reader is _csv else ""
        raise ConfigurationError(f"{path} has no rows{first}")
    return rows


def _open(path: Path) -> TextIO:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _csv(path: Path, stream: TextIO) -> Iterator[Mapping[str, object]]:
    reader = csv.DictReader(stream, strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                raise ConfigurationError(
                    f"{path}, line {reader.line_num}: the row has another number of fields than "
                    "the header"
                )
            yield row
    except csv.Error as error:
        raise ConfigurationError(f"{path}, line {reader.line_num}: not valid CSV") from error


def _jsonl(path: Path, stream: TextIO) -> Iterator[Mapping[str, object]]:
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise ConfigurationError(f"{path}, line {number}: not valid JSON") from None
        if not isinstance(row, dict):
            raise ConfigurationError(f"{path}, line {number}: not a JSON object")
        yield row
