"""Data sets of table rows: a public schema, rows that play the private ones, and queries."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.public_rows import read_rows
from dpicl_rag.tabular.schema import PACKAGED, Row, Schema
from dpicl_research.tasks import DATA_VARIABLE


@dataclass(frozen=True)
class TableTask:
    """A data set.

    Attributes:
        name: What reports call it.
        schema: Public.
        train: Plays the private rows.
        test: Queries.
    """

    name: str
    schema: Schema
    train: Sequence[Row]
    test: Sequence[Row]

    @cached_property
    def digest(self) -> str:
        """Of schema and rows."""
        found = hashlib.sha256(self.schema.digest.encode())
        for row in (*self.train, *self.test):
            found.update(repr(sorted(row.items())).encode())
        return found.hexdigest()[:16]

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """Of the test rows, [rows, columns]."""
        return np.array([self.schema.encode(row).places for row in self.test])

    @cached_property
    def right(self) -> npt.NDArray[np.int64]:
        """Labels of the test rows, [rows]."""
        return np.array([self.schema.encode(row).label for row in self.test])


def load_tables(names: Sequence[str]) -> list[TableTask]:
    """The packaged data sets, from the folder that ``DPICL_RAG_DATA`` names.

    Raises:
        ConfigurationError: A name is unknown, or its files are not there.
    """
    folder = os.environ.get(DATA_VARIABLE)
    for name in names:
        if name not in PACKAGED:
            raise ConfigurationError(
                f"unknown task {name!r}: give {', '.join(PACKAGED)}, or your own --schema, "
                "--train and --test"
            )
    if not folder:
        raise ConfigurationError(
            f"set {DATA_VARIABLE} to the folder with tab_NAME_train.csv.gz and "
            "tab_NAME_test.csv.gz, or give your own --schema, --train and --test"
        )
    return [
        table_task(
            name,
            Schema.read(name),
            *(Path(folder) / f"tab_{name}_{part}.csv.gz" for part in ("train", "test")),
        )
        for name in names
    ]


def table_task(name: str, schema: Schema, train: Path, test: Path) -> TableTask:
    """A data set from two files. Queries without a listed label are left out.

    Raises:
        ConfigurationError: A file cannot be read, or no row has a listed label.
    """
    private, queries = (
        [row for row in read_rows(path, "table") if schema.encode(row).label is not None]
        for path in (train, test)
    )
    if not private or not queries:
        raise ConfigurationError(
            f"{name}: no row has one of the labels {', '.join(schema.label.values)} in the "
            f"column {schema.label.name!r}"
        )
    return TableTask(name, schema, private, queries)
