"""A PostgreSQL table with a pgvector column, scored row by row: never by an index."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpicl_rag._packaged import optional
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import (
    EVERYTHING,
    NO_TEXT,
    NO_UNIT,
    Defect,
    MetadataFilter,
    StoredRecord,
)
from dpicl_rag.stores.exact_store import ExactStore, QuestionVector, ScoredRow, StoreReading, T
from dpicl_rag.stores.pg_statements import Statements, Table, types_of

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

Connect = Callable[[Callable[["Connection"], Any]], Any]
"""Runs some work on a connection, such as `connecting` makes."""

_PAGE = 1024  # rows fetched at a time: 6 MB at 1536 dimensions
_SILENT = logging.Logger("dpicl_rag", logging.CRITICAL + 1)
_READING = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
_BY_INDEX = ("Index Scan", "Index Only Scan")
_EXACTLY = {
    # pgvector's indexes are approximate, and serve index scans alone; bitmap scans are exact.
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_seqscan": "on",
    "cursor_tuple_fraction": "1",  # so that EXPLAIN shows what a cursor runs
}


class PgVectors(ExactStore):
    """A `VectorSource` over a table with a pgvector column.

    Indexes on the vectors may stay: they are not used.

    Args:
        connect: A SQLAlchemy engine; or what runs work on a connection of one, see `connecting`.
        table: The table and its columns.
        unit_field: Column or metadata field that holds the privacy unit; ``"document"`` makes each
            row a unit. A unit is named as PostgreSQL writes it: true, not True.
        embedder: The model that the table was filled with.
        name: Public name of the corpus; the table's if None.

    Raises:
        ConfigurationError: There is no such column, and no metadata; or the engine is
            asynchronous.
        MissingDependencyError: SQLAlchemy is not installed.
    """

    kind = "PostgreSQL table"

    def __init__(
        self,
        connect: Engine | Connect,
        table: Table,
        *,
        unit_field: str,
        embedder: Embedder,
        name: str | None = None,
    ) -> None:
        optional("sqlalchemy", "dpicl-rag[pgvector]", "SQLAlchemy")
        if hasattr(connect, "sync_engine"):
            raise ConfigurationError(
                "an asynchronous engine needs a loop that runs it; see connecting_through"
            )
        self.name = table.name if name is None else name
        self.embedder = embedder
        self._connect: Connect = connect if callable(connect) else connecting(connect)
        self._table = table
        self.unit_field: str = unit_field
        if unit_field != "document" and unit_field not in table.columns and table.metadata is None:
            raise ConfigurationError(
                f"the table has no metadata, and {unit_field!r} is not among its columns; name the "
                "column that holds the privacy unit in columns"
            )

    def read(self, filter: MetadataFilter, work: Callable[[StoreReading], T]) -> T:
        """A reading of the table in one transaction; see `ExactStore.read`."""

        def on(connection: Connection) -> T:
            _set_locally(connection, _EXACTLY)
            statements = Statements(
                self._table,
                self.unit_field,
                types_of(connection, self._table),
                filter,
                validates=(connection.dialect.server_version_info or ()) >= (16,),
            )
            return work(_PgReading(connection, statements, filter))

        found: T = self._connect(on)
        return found


def connecting(engine: Engine) -> Connect:
    """Run work on a connection of an engine, in one read-only transaction.

    Nothing is logged and errors quote no values, however the engine is set: both would tell units.
    """
    quiet = quieted(engine)

    def connect(work: Callable[[Connection], T]) -> T:
        with quiet.connect().execution_options(**_READING) as connection:
            return work(connection)

    return connect


def connecting_through(
    engine: AsyncEngine, run: Callable[[Coroutine[Any, Any, Any]], Any]
) -> Connect:
    """As `connecting`, on an asynchronous engine.

    Args:
        engine: The engine.
        run: Runs a coroutine in the event loop of the engine, from another thread, and waits.
    """
    from sqlalchemy.ext.asyncio import AsyncEngine

    quiet = AsyncEngine(quieted(engine.sync_engine))

    async def connected(work: Callable[[Connection], T]) -> T:
        async with quiet.connect() as connection:
            await connection.execution_options(**_READING)
            return await connection.run_sync(work)

    return lambda work: run(connected(work))


def quieted(engine: Engine) -> Engine:
    """The same engine and pool, without logs and without values in errors."""
    quiet = engine.execution_options()
    quiet.hide_parameters = True
    quiet.logger = _SILENT
    return quiet


@dataclass(frozen=True, repr=False)
class _PgReading:
    """A `StoreReading` of a table, in one transaction."""

    connection: Connection
    statements: Statements
    filter: MetadataFilter

    def best(self, question: QuestionVector, count: int) -> Sequence[tuple[str | None, float]]:
        rows = self._searched(*self.statements.best(question, count))
        return [(unit if self._passes(fields) else None, own) for own, unit, *fields in rows]

    def near(self, question: QuestionVector, floor: float) -> Iterator[ScoredRow]:
        for vector, unit, *fields in self._searched(*self.statements.near(question, floor)):
            if unit is not None and self._passes(fields):
                yield ScoredRow(unit, _vector(vector))

    def members(self, units: Sequence[str]) -> Iterator[tuple[StoredRecord, Any]]:
        for first in range(0, max(1, len(units)), _PAGE):
            page = list(units[first : first + _PAGE])
            for vector, unit, id, text, *fields in self._rows(*self.statements.members(page)):
                if self._passes(fields):
                    yield self._record(unit, id, text, fields), _vector(vector)

    def everything(self) -> Iterator[tuple[StoredRecord | Defect, Any]]:
        for vector, unit, id, text, *fields in self._rows(*self.statements.everything()):
            if unit is None or text is None:
                yield Defect(str(id), NO_UNIT if unit is None else NO_TEXT), _vector(vector)
            else:
                yield self._record(unit, id, text, fields), _vector(vector)

    def _searched(self, statement: str, parameters: Mapping[str, Any]) -> Iterator[Any]:
        """Rows of a statement that no index answers."""
        (row,) = self._rows(f"EXPLAIN (FORMAT JSON) {statement}", parameters, whole=True)
        require_no_index(json.loads(row[0]) if isinstance(row[0], str) else row[0])
        yield from self._rows(statement, parameters)

    def _rows(
        self, statement: str, parameters: Mapping[str, Any], *, whole: bool = False
    ) -> Iterator[Any]:
        from sqlalchemy import Text, bindparam, text

        made = text(statement)
        if "units" in parameters:
            made = made.bindparams(bindparam("units", type_=Text(), expanding=True))
        options = {} if whole else {"yield_per": _PAGE}
        yield from self.connection.execute(made, parameters, execution_options=options)

    def _passes(self, fields: list[Any]) -> bool:
        # Metadata is parsed where it is asked for.
        return self.filter is EVERYTHING or self.filter.passes(self.statements.fields(fields))

    def _record(self, unit: str, id: str, text: str, values: list[Any]) -> StoredRecord:
        fields = self.statements.fields(values)
        return StoredRecord(str(id), unit, text, {key: str(value) for key, value in fields.items()})


def _set_locally(connection: Connection, settings: Mapping[str, str]) -> None:
    """Change settings for a transaction."""
    from sqlalchemy import func, select

    connection.execute(select(*(func.set_config(*item, True) for item in settings.items())))


def require_no_index(plan: Any) -> None:
    """Check what EXPLAIN says of a statement.

    Raises:
        ConfigurationError: Rows would be found by an index scan, which may be approximate.
    """
    if isinstance(plan, list):
        for part in plan:
            require_no_index(part)
    elif isinstance(plan, dict):
        if plan.get("Node Type") in _BY_INDEX:
            raise ConfigurationError(
                "PostgreSQL would search the table by an index scan, which may be approximate; do "
                "not force index scans (enable_indexscan, hints)"
            )
        for part in plan.values():
            require_no_index(part)


def _vector(sent: Any) -> npt.NDArray[np.float32] | None:
    """A vector from how pgvector sends it: two numbers of 16 bits, then big-endian float32."""
    return None if sent is None else np.frombuffer(sent, dtype=">f4", offset=4).astype(np.float32)
