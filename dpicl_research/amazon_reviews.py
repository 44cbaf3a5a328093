"""Amazon polarity (Zhang et al. 2015) from the files that its archive unpacks to.

``amazon_review_polarity_csv/train.csv`` and ``test.csv`` have no header: class 1 or 2, title, text.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from dpicl_rag.errors import ConfigurationError

MOST_ROWS = 100_000
"""Rows that are read of a file, from its beginning: it has 3.6 million."""

_FOLDER = "amazon_review_polarity_csv"
_LABELS = {"1": "Negative", "2": "Positive"}


def amazon_rows(folder: Path) -> tuple[list[Mapping[str, object]], list[Mapping[str, object]]]:
    """Examples and queries, each with ``text``, the title and what follows, and ``label``.

    Args:
        folder: The data folder, with the archive's own folder in it.

    Raises:
        ConfigurationError: A file is missing, empty, damaged or of another kind; names the line.
    """
    return _rows(folder / _FOLDER / "train.csv"), _rows(folder / _FOLDER / "test.csv")


def _rows(path: Path) -> list[Mapping[str, object]]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(itertools.islice(_read(path, stream), MOST_ROWS))
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such task file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path}: the task file cannot be read ({type(error).__name__})"
        ) from error
    if not rows:
        raise ConfigurationError(f"{path} has no rows")
    return rows


def _read(path: Path, stream: TextIO) -> Iterator[Mapping[str, object]]:
    reader = csv.reader(stream)
    try:
        for row in reader:
            if len(row) != 3 or row[0] not in _LABELS:
                raise ConfigurationError(
                    f"{path}, line {reader.line_num}: not 3 fields with a label of "
                    f"{' or '.join(_LABELS)}"
                )
            # A line break is written as these two characters.
            yield {"text": " ".join(row[1:]).replace("\\n", " "), "label": _LABELS[row[0]]}
    except csv.Error as error:
        raise ConfigurationError(f"{path}, line {reader.line_num}: not valid CSV") from error
