"""SST-2 and Amazon polarity from the files that their archives unpack to.

SST-2 is GLUE's: ``SST-2/train.tsv`` and ``dev.tsv``, a header, then a sentence and 0 or 1; its
``test.tsv`` has no labels. Amazon polarity (Zhang et al. 2015) is
``amazon_review_polarity_csv/train.csv`` and ``test.csv``, no header: class 1 or 2, title, text.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from dpicl_rag.errors import ConfigurationError

MOST_ROWS = 100_000
"""Rows that are read of a file, from its beginning: Amazon polarity has 3.6 million."""


@dataclass(frozen=True, slots=True)
class _Files:
    """Where a task's rows stand, and what their columns mean.

    Attributes:
        pool: File of examples, in the data folder.
        test: File of queries.
        separator: Between columns.
        header: First row, or None where there is none.
        label: Column of the label.
        labels: Names by what stands in the file.
    """

    pool: str
    test: str
    separator: str
    header: list[str] | None
    label: int
    labels: Mapping[str, str]


_FILES = {
    "sst2": _Files(
        "SST-2/train.tsv",
        "SST-2/dev.tsv",
        "\t",
        ["sentence", "label"],
        1,
        {"0": "Negative", "1": "Positive"},
    ),
    "amazon": _Files(
        "amazon_review_polarity_csv/train.csv",
        "amazon_review_polarity_csv/test.csv",
        ",",
        None,
        0,
        {"1": "Negative", "2": "Positive"},
    ),
}

SENTIMENT_TASKS = tuple(_FILES)
"""Names of the tasks that are read here."""


def sentiment_rows(
    name: str, folder: Path
) -> tuple[list[Mapping[str, object]], list[Mapping[str, object]]]:
    """Examples and queries of a task, each with ``text`` and ``label``.

    A review's text is its title and what follows.

    Args:
        name: One of ``SENTIMENT_TASKS``.
        folder: The data folder, with the archive's own folder in it.

    Raises:
        ConfigurationError: A file is missing, empty, damaged or of another kind; names the line.
    """
    files = _FILES[name]
    return _rows(folder / files.pool, files), _rows(folder / files.test, files)


def _rows(path: Path, files: _Files) -> list[Mapping[str, object]]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(itertools.islice(_read(path, stream, files), MOST_ROWS))
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such task file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path}: the task file cannot be read ({type(error).__name__})"
        ) from error
    if not rows:
        raise ConfigurationError(f"{path} has no rows")
    return rows


def _read(path: Path, stream: TextIO, files: _Files) -> Iterator[Mapping[str, object]]:
    if files.separator == "\t":
        # A quotation mark in a sentence is no more than that.
        reader = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(stream)
    fields = len(files.header or ("class", "title", "text"))
    try:
        if files.header is not None and next(reader, None) != files.header:
            raise ConfigurationError(f"{path}: the first line must be {' and '.join(files.header)}")
        for row in reader:
            if len(row) != fields or row[files.label] not in files.labels:
                raise ConfigurationError(
                    f"{path}, line {reader.line_num}: not {fields} fields with a label of "
                    f"{' or '.join(files.labels)}"
                )
            label = files.labels[row.pop(files.label)]
            # Amazon's files write a line break as these two characters.
            yield {"text": " ".join(row).replace("\\n", " "), "label": label}
    except csv.Error as error:
        raise ConfigurationError(f"{path}, line {reader.line_num}: not valid CSV") from error
