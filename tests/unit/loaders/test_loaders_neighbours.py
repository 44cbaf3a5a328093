"""One unit more changes nothing but itself; and what once broke that is seen when it comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders import (
    delimited,
    identities,
    loader,
    mail,
    parsing,
    sources,
    table_files,
    threads,
)
from dpicl_rag.loaders.records import Record, RecordOrSkipped
from dpicl_rag.loaders.streams import _weight
from dpicl_rag.loaders.threads import normalise
from tests.unit.loaders.neighbours import corpus, differences

BLOCK = 60


@pytest.mark.one_in(12)
@pytest.mark.parametrize("block", range(10))
def test_one_unit_moves_no_other(tmp_path: Path, block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        assert differences(corpus(seed), tmp_path / str(seed)) == [], seed


# ---- the findings of an audit, planted again ----

Patch = Callable[[Any, str, Any], None]


def _allowance_shared_by_records(patch: Patch) -> None:
    def cut(reader: Any) -> Any:
        def read(*arguments: Any) -> Iterator[RecordOrSkipped]:
            left = 15_000
            for entry in reader(*arguments):
                left -= _weight(entry)
                if left < 0:
                    return
                yield entry

        return read

    patch(loader, "_MANY", {kind: cut(reader) for kind, reader in loader._MANY.items()})


def _subject_that_ties_by_itself(patch: Patch) -> None:
    patch(threads, "is_marked", lambda subject: True)
    patch(threads, "_subject_keys", lambda one: (normalise(one.subject),))


def _quote_that_swallows_rows(patch: Patch) -> None:
    class Swallowing(delimited.DelimitedRows):
        def _row(self, line: delimited.Line, width: int) -> delimited.DelimitedRow:
            row = super()._row(line, width)
            self._ahead.clear()
            return row

    patch(table_files, "DelimitedRows", Swallowing)


def _error_that_one_row_decides(patch: Patch) -> None:
    asked = loader.columns_instead

    def must_be_there(*arguments: Any) -> tuple[str, ...]:
        if asked(*arguments):
            raise ConfigurationError("no record has a value for the text field")
        return ()

    patch(loader, "columns_instead", must_be_there)


def _characters_that_lose_bytes(patch: Patch) -> None:
    patch(
        table_files,
        "characters",
        lambda raw: (raw.decode("utf-8", "replace").replace("\0", ""), ""),
    )


def _names_of_files_that_lose_bytes(patch: Patch) -> None:
    patch(sources.SourceFile, "exact", "")


def _names_as_they_are_written(patch: Patch) -> None:
    patch(identities, "key_form", lambda value: value)


def _mail_that_ties_whatever_it_refers_to(patch: Patch) -> None:
    patch(identities, "tying_many", lambda messages: set())


def _ids_between_angles_alone(patch: Patch) -> None:
    patch(mail, "_ids", lambda values: tuple(one for v in values for one in mail._ID.findall(v)))
    patch(parsing, "parser", lambda while_waiting: nullcontext())  # a child has no such fault


def _texts_known_by_the_folder_that_is_loaded(patch: Patch) -> None:
    def names(self: object, record: Record) -> list[str]:
        return [record.metadata["file"]] if record.content else original(self, record)

    original: Any = identities.Identities.names
    patch(identities.Identities, "names", names)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "plant",
    [
        _allowance_shared_by_records,
        _subject_that_ties_by_itself,
        _quote_that_swallows_rows,
        _error_that_one_row_decides,
        _characters_that_lose_bytes,
        _names_of_files_that_lose_bytes,
        _names_as_they_are_written,
        _texts_known_by_the_folder_that_is_loaded,
        _mail_that_ties_whatever_it_refers_to,
        _ids_between_angles_alone,
    ],
)
def test_what_broke_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Patch], None]
) -> None:
    plant(monkeypatch.setattr)
    seeds = range(10 * BLOCK)
    assert any(differences(corpus(seed), tmp_path / str(seed)) for seed in seeds)
