"""SQL over a PostgreSQL table with a pgvector column. No expression fails for any row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.stored_record import EVERYTHING, MetadataFilter
from dpicl_rag.stores.exact_store import QuestionVector

if TYPE_CHECKING:
    from sqlalchemy import Connection

_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_UNREADABLE = rf"\\u0000|{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}"
"""Escapes that json may hold and text may not: NUL, and halves of surrogate pairs."""


@dataclass(frozen=True)
class Table:
    """The columns of a table. Public.

    Attributes:
        name: The table.
        schema: Its schema; None takes the first on the connection's search path.
        id: Column of the identifier.
        text: Column of the text.
        vector: Column of the embedding, of type ``vector`` or ``halfvec``.
        metadata: Column of the metadata, ``jsonb`` or ``json``; None if there is none.
        columns: Further columns that hold metadata, one field each.
        condition: SQL that a row must meet to belong to the corpus.
        parameters: Values of its ``:names``.
    """

    name: str
    schema: str | None = None
    id: str = "id"
    text: str = "document"
    vector: str = "embedding"
    metadata: str | None = "metadata"
    columns: tuple[str, ...] = ()
    condition: str = "TRUE"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def qualified(self) -> str:
        """Its name as PostgreSQL reads it."""
        parts = (self.schema, self.name)
        return ".".join('"' + p.replace('"', '""') + '"' for p in parts if p is not None)


class Statements:
    """The statements over a table, each with its parameters.

    Args:
        table: The table.
        unit_field: Column or metadata field of the unit; ``"document"`` is the identifier.
        types: Types of the columns, see `types_of`.
        filter: What is read.
        validates: Whether the server tells what is valid jsonb: PostgreSQL 16 and later.
    """

    def __init__(
        self,
        table: Table,
        unit_field: str,
        types: Mapping[str, str],
        filter: MetadataFilter,
        *,
        validates: bool,
    ) -> None:
        self._table = table
        self._types = types
        self._validates = validates
        self._parameters: dict[str, Any] = dict(table.parameters)
        self._id = f"CAST({_quoted(table.id)} AS text)"
        self._unit = self._id if unit_field == "document" else self._text_of(unit_field)
        vector = _quoted(table.vector)
        self._vector = vector if types[table.vector] == "vector" else f"CAST({vector} AS vector)"
        self._text = _quoted(table.text)
        self._fields = [f"CAST({_quoted(table.metadata)} AS text)"] if table.metadata else []
        self._fields += [self._as_json(name) for name in table.columns]
        self._asked = [] if filter is EVERYTHING else self._fields
        self._whole = f"FROM {_colons(table.qualified)} WHERE ({table.condition})"
        self._rows = " AND ".join(
            [self._whole, f"{self._text} IS NOT NULL", *self._passing(filter)]
        )

    def best(self, question: QuestionVector, count: int) -> tuple[str, dict[str, Any]]:
        """Own score, unit and fields of the rows with the highest own scores."""
        score, values = self._score(question)
        # The units of the others are not worked out.
        rows = f"SELECT *, {score} AS dpicl_own {self._rows} ORDER BY dpicl_own DESC LIMIT :count"
        columns = ", ".join(["dpicl_own", self._unit, *self._asked])
        statement = f"SELECT {columns} FROM ({rows}) AS rows"  # noqa: S608 - quoted
        return statement, {**values, "count": count}

    def near(self, question: QuestionVector, floor: float) -> tuple[str, dict[str, Any]]:
        """Vector, unit and fields of the rows whose own score is at least ``floor``."""
        score, values = self._score(question)
        columns = ", ".join([self._bytes, self._unit, *self._asked])
        return f"SELECT {columns} {self._rows} AND {score} >= :floor", {**values, "floor": floor}

    def members(self, units: list[str]) -> tuple[str, dict[str, Any]]:
        """Vector, unit, id, text and fields of the rows of some units."""
        columns = ", ".join([self._bytes, self._unit, self._id, self._text, *self._fields])
        # The column's own collation, whose index may serve, may take two units for one.
        named = f'{self._unit} IN :units AND ({self._unit}) COLLATE "C" IN :units'
        return f"SELECT {columns} {self._rows} AND {named}", {**self._parameters, "units": units}

    def everything(self) -> tuple[str, dict[str, Any]]:
        """As `members`, of all rows."""
        columns = ", ".join([self._bytes, self._unit, self._id, self._text, *self._fields])
        return f"SELECT {columns} {self._whole}", self._parameters

    def fields(self, values: Sequence[Any]) -> dict[str, Any]:
        """The metadata of a row, from its last columns."""
        fields: dict[str, Any] = {}
        if self._table.metadata is not None:
            whole = _parsed(values[0])
            fields.update(whole if isinstance(whole, dict) else {})
            values = values[1:]
        for name, value in zip(self._table.columns, values, strict=True):
            fields[name] = _parsed(value)
        return fields

    @property
    def _bytes(self) -> str:
        return f"vector_send({self._vector})"

    def _score(self, question: QuestionVector) -> tuple[str, dict[str, Any]]:
        """The cosine in float32. By hand: ``<=>`` has no value for vectors of another length."""
        vector = f"[{','.join(map(repr, question.tolist()))}]"
        score = (
            f"CASE WHEN vector_dims({self._vector}) = :dimension THEN "
            f"-(l2_normalize({self._vector}) <#> CAST(CAST(:question AS text) AS vector)) "
            "ELSE 0 END"
        )
        return score, {**self._parameters, "dimension": len(question), "question": vector}

    def _text_of(self, field: str) -> str:
        """The value of a metadata field as text, or NULL."""
        if field in self._table.columns:
            return f"CAST({_quoted(field)} AS text)"
        column, name = _quoted(self._table.metadata or ""), self._named(field)
        value = f"{column} ->> CAST({name} AS text)"
        if self._types[self._table.metadata or ""] == "jsonb":
            return value
        whole = f"CAST({column} AS text)"
        valid = (
            f"pg_input_is_valid({whole}, 'jsonb')"
            if self._validates
            else f"{whole} !~ {self._named(_UNREADABLE)}"
        )
        return (
            f"CASE WHEN position('\\u' IN {whole}) = 0 THEN {value} WHEN {valid} THEN {value} END"
        )

    def _as_json(self, column: str) -> str:
        """A column as JSON text. What is json already may be none that ``to_jsonb`` takes."""
        value = _quoted(column)
        made = value if self._types[column] in ("json", "jsonb") else f"to_jsonb({value})"
        return f"CAST({made} AS text)"

    def _passing(self, filter: MetadataFilter) -> list[str]:
        """Conditions that rows meet which pass a filter, and maybe others."""
        conditions: list[str] = []
        kind = self._types.get(self._table.metadata or "")
        for key, values in filter.equal.items():
            strings = all(isinstance(value, str) for value in values)
            if key in self._table.columns:
                if strings and self._types[key] in ("text", "character varying"):
                    names = ", ".join(map(self._named, values))
                    conditions.append(f"{_quoted(key)} IN ({names})")
            elif kind == "jsonb":  # the operator of LangChain's index
                alike = (self._named(json.dumps({key: value})) for value in values)
                column = _quoted(self._table.metadata or "")
                conditions.append(
                    "(" + " OR ".join(f"{column} @> CAST({v} AS jsonb)" for v in alike) + ")"
                )
            elif kind == "json" and strings:
                names = ", ".join(map(self._named, values))
                conditions.append(f"{self._text_of(key)} IN ({names})")
        return conditions

    def _named(self, value: str) -> str:
        """A parameter with this value, which is public."""
        name = f"dpicl_{len(self._parameters)}"
        self._parameters[name] = value
        return f":{name}"


def types_of(connection: Connection, table: Table) -> dict[str, str]:
    """Types of the columns of a table.

    Raises:
        ConfigurationError: A column is missing or of another kind, or pgvector is too old.
    """
    from sqlalchemy import text

    rows = connection.execute(
        text(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = to_regclass(CAST(:name AS text)) AND attnum > 0 "
            "UNION ALL SELECT NULL, extversion FROM pg_extension WHERE extname = 'vector'"
        ),
        {"name": table.qualified},
    )
    types = dict(tuple(row) for row in rows)
    version = types.pop(None, "0.0")
    if tuple(map(int, version.split(".")[:2])) < (0, 7):
        raise ConfigurationError("the database needs the extension vector, pgvector 0.7 or later")
    types = {name: kind.split(".")[-1] for name, kind in types.items()}
    metadata = () if table.metadata is None else (table.metadata,)
    missing = {table.id, table.text, table.vector, *metadata, *table.columns} - types.keys()
    if missing:
        names = ", ".join(map(repr, sorted(missing)))
        raise ConfigurationError(f"there is no table {table.qualified} with a column {names}")
    if types[table.vector] not in ("vector", "halfvec"):
        raise ConfigurationError(
            f"column {table.vector!r} must be of type vector or halfvec: how far scores of other "
            "types are from exact ones is not known"
        )
    if table.metadata is not None and types[table.metadata] not in ("json", "jsonb"):
        raise ConfigurationError(f"column {table.metadata!r} must be of type json or jsonb")
    return types


def _quoted(name: str) -> str:
    return _colons('"' + name.replace('"', '""') + '"')


def _colons(sql: str) -> str:
    """SQLAlchemy takes a colon for the start of a parameter."""
    return sql.replace(":", "\\:")


def _parsed(value: str | None) -> Any:
    """JSON, or None where Python cannot read it."""
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None
