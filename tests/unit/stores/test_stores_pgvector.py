"""PostgreSQL tables with a pgvector column."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import NotSupportedError
from sqlalchemy.ext.asyncio import create_async_engine

from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.retrieval import ThresholdRetriever, TopKRetriever
from dpicl_rag.retrieval.metadata_filters import EVERYTHING
from dpicl_rag.retrieval.stored_record import NO_TEXT, NO_UNIT, NO_VECTOR, OTHER_LENGTH
from dpicl_rag.stores import pgvector
from dpicl_rag.stores.exact_store import exact_scores
from dpicl_rag.stores.pg_statements import Statements, Table
from dpicl_rag.stores.pgvector import PgVectors, require_no_index
from tests.support import postgres as server
from tests.support.stores import (
    DIMENSION,
    EMBEDDER,
    FIELD,
    QUESTION,
    Passage,
    PgTable,
    fixed,
    passages,
)

NEAR, FAR = fixed([[3, 1] + [0] * 6, [1, 3] + [0] * 6])


def units(source: PgVectors, threshold: float = 0.9, where: Any = None) -> list[str]:
    found = ThresholdRetriever(source, threshold, where=where).retrieve("q")
    return sorted(document.unit for document in found)


def insert(table: PgTable, *rows: tuple[str | None, str | None, str | None, Any]) -> None:
    """Rows as somebody else writes them: id, text, metadata, vector."""
    with table.engine.begin() as connection:
        for id, document, metadata, vector in rows:
            connection.execute(
                text(
                    f"INSERT INTO {table.name} VALUES (1, :id, :text, "
                    "CAST(CAST(:metadata AS text) AS json), CAST(:vector AS vector))"
                ),
                {
                    "id": id,
                    "text": document,
                    "metadata": metadata,
                    "vector": None if vector is None else str(np.asarray(vector).tolist()),
                },
            )


DAMAGED: list[tuple[str | None, str | None, str | None, Any]] = [
    ("whole", "text", '{"thread": "whole"}', NEAR),
    ("no text", None, '{"thread": "no text"}', NEAR),
    ("no unit", "text", '{"owner": "ann"}', NEAR),
    ("null unit", "text", '{"thread": null}', NEAR),
    ("no metadata", "text", None, NEAR),
    ("metadata is a list", "text", '["thread"]', NEAR),
    ("metadata is a string", "text", '"thread"', NEAR),
    ("no vector", "text", '{"thread": "no vector"}', None),
    ("zero", "text", '{"thread": "zero"}', [0.0] * DIMENSION),
    ("short", "text", '{"thread": "short"}', [1.0, 0.0]),
    ("huge", "text", '{"thread": "huge"}', [3e38, 1e38] + [0] * 6),
    ("tiny", "text", '{"thread": "tiny"}', [3e-40, 1e-40] + [0] * 6),
]


def test_a_damaged_row_stops_nothing_and_its_owner_learns_of_it(engine: Engine) -> None:
    table = PgTable(engine, metadata="json")
    insert(table, *DAMAGED)
    source = table.source(1)
    assert units(source) == ["huge", "tiny", "whole"]
    assert units(source, 0.0) == ["huge", "no vector", "short", "tiny", "whole", "zero"]
    assert {(defect.id, defect.reason) for defect in source.check()} == {
        ("no text", NO_TEXT),
        *((id, NO_UNIT) for id in ("no unit", "null unit", "no metadata")),
        *((id, NO_UNIT) for id in ("metadata is a list", "metadata is a string")),
        ("zero", NO_VECTOR),
        *((id, OTHER_LENGTH) for id in ("no vector", "short")),
    }


@pytest.mark.parametrize("validates", [True, False], ids=["PostgreSQL 16", "before"])
def test_metadata_that_no_text_can_hold_stops_nothing(
    engine: Engine, validates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``json`` takes escapes that every operator on it then fails for."""
    made = Statements.__init__
    monkeypatch.setattr(
        Statements,
        "__init__",
        lambda self, *a, **k: made(self, *a, **{**k, "validates": validates}),
    )
    table = PgTable(engine, metadata="json")
    insert(
        table,
        ("1", "text", r'{"thread": "nul", "x": "\u0000"}', NEAR),
        ("2", "text", r'{"thread": "high", "x": "\ud83d"}', NEAR),
        ("3", "text", r'{"thread": "low", "x": "\ude00 and more"}', NEAR),
        ("4", "text", r'{"thread": "pair \ud83d\ude00", "x": "\u00e9"}', NEAR),
    )
    source = table.source(1)
    assert units(source) == ["pair 😀"]
    assert units(source, where={"x": "é"}) == ["pair 😀"]
    assert {defect.id for defect in source.check()} == {"1", "2", "3"}


@pytest.mark.parametrize("metadata", ["json", "jsonb"])
def test_units_that_are_no_strings(engine: Engine, metadata: str) -> None:
    table = PgTable(engine, metadata=metadata)
    insert(
        table,
        ("1", "text", '{"thread": 7}', NEAR),
        ("2", "text", '{"thread": "7"}', FAR),
        ("3", "text", '{"thread": true}', NEAR),
        ("4", "text", '{"thread": 1.5}', NEAR),
    )
    assert units(table.source(1)) == ["1.5", "7", "7", "true"]


def test_columns_in_place_of_metadata(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text('DROP TABLE IF EXISTS "odd: ""name"'))
        connection.execute(
            text(
                'CREATE TABLE "odd\\: ""name" (id uuid, "the text" text, e vector(8), '
                "patient integer, ward text, seen date, odd json)"
            )
        )
        connection.execute(
            text(
                'INSERT INTO "odd\\: ""name" VALUES '
                "(gen_random_uuid(), 'a', :near, 5, 'north', '2026-01-02', "
                "CAST(CAST(:odd AS text) AS json)), "
                "(gen_random_uuid(), 'b', :near, 6, 'south', NULL, 'null'), "
                "(gen_random_uuid(), 'c', :near, NULL, 'north', NULL, NULL)"
            ),
            {"near": str(NEAR.tolist()), "odd": r'{"x": "\u0000"}'},
        )
    table = Table(
        'odd: "name',
        schema="public",
        text="the text",
        vector="e",
        metadata=None,
        columns=("patient", "ward", "seen", "odd"),
    )
    source = PgVectors(engine, table, unit_field="patient", embedder=EMBEDDER)
    assert units(source) == ["5", "6"]
    assert units(source, where={"ward": "north"}) == ["5"]
    assert units(source, where={"patient": {"$gt": 5}}) == ["6"]
    document = ThresholdRetriever(source, 0.9, where={"seen": "2026-01-02"}).retrieve("q")[0]
    assert document.metadata == {
        "patient": "5",
        "ward": "north",
        "seen": "2026-01-02",
        "odd": str({"x": "\0"}),
    }
    with pytest.raises(ConfigurationError, match="not among its columns"):
        PgVectors(engine, table, unit_field="thread", embedder=EMBEDDER)


ALIKE = "CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"


def test_units_are_told_apart_under_a_collation_that_takes_them_for_one(engine: Engine) -> None:
    try:
        with engine.begin() as connection:
            connection.execute(text(ALIKE))
    except NotSupportedError:
        pytest.skip(
            "this PostgreSQL was built without ICU: each of its collations tells them apart"
        )
    with engine.begin() as connection:
        connection.execute(
            text(
                "CREATE TABLE wards (id text, document text, embedding vector(8), "
                "patient text COLLATE alike)"
            )
        )
        connection.execute(
            text(
                "INSERT INTO wards VALUES ('1', 'of ann', :near, 'ann'), "
                "('2', 'of Ann', :far, 'Ann'), ('3', 'of \u00e4nn', :near, '\u00e4nn')"
            ),
            {"near": str(NEAR.tolist()), "far": str(FAR.tolist())},
        )
    table = Table("wards", metadata=None, columns=("patient",))
    source = PgVectors(engine, table, unit_field="patient", embedder=EMBEDDER)
    found = ThresholdRetriever(source, 0.9).retrieve("q")
    assert {document.unit: document.text for document in found} == {
        "ann": "of ann",
        "\u00e4nn": "of \u00e4nn",
    }


@pytest.mark.parametrize("field", ["document", "patient", "thread"])
def test_units_are_compared_by_their_bytes(field: str) -> None:
    """What the test above sees, where PostgreSQL has such collations."""
    table = Table("wards", columns=("patient",))
    types = {"embedding": "vector", "metadata": "json", "patient": "text", "id": "text"}
    statements = Statements(table, field, types, EVERYTHING, validates=True)
    statement, _ = statements.members(["ann"])
    assert statement.count("IN :units") == 2
    assert statement.endswith(') COLLATE "C" IN :units')


def test_each_row_a_unit(engine: Engine) -> None:
    table = PgTable(engine)
    made = passages(5)
    table.add(made.rows, 1)
    source = PgVectors(engine, Table(table.name), unit_field="document", embedder=made.embedder)
    found = ThresholdRetriever(source, -1.0).retrieve("q")
    assert {d.unit for d in found} == {row.id for row in made.rows}


def test_halves_are_searched_and_scored_in_full(engine: Engine) -> None:
    table = PgTable(engine, vector="halfvec")
    made = passages(11)
    with engine.begin() as connection:
        for row in made.rows:
            connection.execute(
                text(
                    f"INSERT INTO {table.name} VALUES (1, :id, 'text', "
                    "CAST(CAST(:metadata AS text) AS jsonb), CAST(:vector AS halfvec))"
                ),
                {
                    "id": row.id,
                    "metadata": f'{{"{FIELD}": "{row.id}"}}',
                    "vector": str(row.vector.tolist()),
                },
            )
    source = table.source(1, made.embedder)
    scan = source.scan(made.question)
    halves = {row.id: row.vector.astype(np.float16) for row in made.rows}
    ours = exact_scores([halves[unit] for unit in scan.units], made.question)
    assert scan.scores.tolist() == ours.tolist()
    assert len(scan.units) == len(made.rows)


# Approximate indexes


@pytest.fixture(scope="module")
def indexed(engine: Engine) -> PgTable:
    """A table whose index finds little, and whose sessions are told to use indexes."""
    table = PgTable(engine, vector=f"vector({DIMENSION})")
    random = np.random.default_rng(0)
    vectors = fixed(random.normal(size=(3000, DIMENSION)))
    table.add([Passage(f"{n}", {FIELD: f"{n % 1500}"}, v) for n, v in enumerate(vectors)], 1)
    with engine.begin() as connection:
        connection.execute(
            text(
                f"CREATE INDEX ON {table.name} USING hnsw (embedding vector_cosine_ops) "
                "WITH (m = 2, ef_construction = 4)"
            )
        )
        connection.execute(text(f"ANALYZE {table.name}"))
    options = "-c enable_seqscan=off -c hnsw.ef_search=1"
    table.engine = create_engine(engine.url, connect_args={"options": options})
    yield table
    table.engine.dispose()


def exact_top(table: PgTable, k: int) -> list[str]:
    with table.engine.begin() as connection:
        rows = connection.execute(
            text(f"SELECT metadata ->> 'thread', vector_send(embedding) FROM {table.name}")
        ).all()
    scores = exact_scores([pgvector._vector(sent) for _, sent in rows], QUESTION).tolist()
    best: dict[str, float] = {}
    for (unit, _), score in zip(rows, scores, strict=True):
        best[unit] = max(score, best.get(unit, -1))
    return sorted(sorted(best, key=lambda unit: -best[unit])[:k])


def top(table: PgTable, k: int = 20) -> list[str]:
    return sorted({d.unit for d in TopKRetriever(table.source(1), k).retrieve("q")})


def by_index(self: Statements, question: Any, count: int) -> tuple[str, dict[str, Any]]:
    """The way in which everybody asks pgvector."""
    _, parameters = self._score(question)
    return (
        f"SELECT 1 - (embedding <=> CAST(CAST(:question AS text) AS vector)), {self._unit} "
        f"{self._rows} AND :dimension > 0 "
        f"ORDER BY embedding <=> CAST(CAST(:question AS text) AS vector) LIMIT {count}",
        parameters,
    )


def near_by_index(self: Statements, question: Any, floor: float) -> tuple[str, dict[str, Any]]:
    statement, parameters = by_index(self, question, 100)
    return f"SELECT {self._bytes}, {self._unit} " + statement[statement.index("FROM") :], parameters


def test_an_index_that_was_left_on_changes_nothing(indexed: PgTable) -> None:
    assert top(indexed) == exact_top(indexed, 20)


def test_a_search_by_index_is_refused(indexed: PgTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: asked in the common way, with index scans left on."""
    monkeypatch.setattr(Statements, "best", by_index)
    monkeypatch.setattr(pgvector, "_EXACTLY", {"enable_indexscan": "on"})
    with pytest.raises(ConfigurationError, match="index scan, which may be approximate"):
        top(indexed)


def test_a_search_by_index_is_caught(indexed: PgTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the same, with no look at the plan."""
    monkeypatch.setattr(Statements, "best", by_index)
    monkeypatch.setattr(Statements, "near", near_by_index)
    monkeypatch.setattr(pgvector, "_EXACTLY", {"enable_indexscan": "on"})
    monkeypatch.setattr(pgvector, "require_no_index", lambda plan: None)
    assert top(indexed) != exact_top(indexed, 20)


def test_index_scans_off_make_the_common_way_exact(
    indexed: PgTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Statements, "best", by_index)
    assert top(indexed) == exact_top(indexed, 20)


def test_plans() -> None:
    require_no_index([{"Plan": {"Node Type": "Sort", "Plans": [{"Node Type": "Seq Scan"}]}}])
    require_no_index([{"Plan": {"Node Type": "Bitmap Heap Scan"}}])
    for scan in ("Index Scan", "Index Only Scan"):
        with pytest.raises(ConfigurationError, match="index scan"):
            require_no_index([{"Plan": {"Node Type": "Limit", "Plans": [{"Node Type": scan}]}}])


# Refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "missing"}, "there is no table"),
        ({"text": "words"}, "with a column 'words'"),
        ({"vector": "document"}, "type vector or halfvec"),
        ({"metadata": "document"}, "type json or jsonb"),
    ],
)
def test_what_a_table_must_have(table: PgTable, change: dict[str, str], message: str) -> None:
    made = Table(**{"name": table.name, **change})
    source = PgVectors(table.engine, made, unit_field=FIELD, embedder=EMBEDDER)
    with pytest.raises(ConfigurationError, match=message):
        source.scan(QUESTION)


def test_an_asynchronous_engine(postgres: str) -> None:
    engine = create_async_engine(server.url(postgres))
    with pytest.raises(ConfigurationError, match="connecting_through"):
        PgVectors(engine, Table("notes"), unit_field=FIELD, embedder=EMBEDDER)


# Silence


def test_errors_quote_nothing(table: PgTable) -> None:
    made = Table(table.name, condition="secret_function(:secret)", parameters={"secret": "ann"})
    source = PgVectors(table.engine, made, unit_field=FIELD, embedder=EMBEDDER)
    with pytest.raises(CorpusError) as caught:
        source.scan(QUESTION)
    assert "the PostgreSQL table refused or failed" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("echo", [False, True, "debug"])
def test_logs_tell_nothing(
    engine: Engine, table: PgTable, echo: Any, caplog: pytest.LogCaptureFixture
) -> None:
    talking = create_engine(engine.url, echo=echo)
    source = table(passages(4))
    source = PgVectors(talking, source._table, unit_field=FIELD, embedder=EMBEDDER)
    with caplog.at_level(logging.DEBUG):
        assert ThresholdRetriever(source, -1.0).retrieve("q")
    told = " ".join(record.getMessage() for record in caplog.records)
    assert source._table.name not in told
    assert "unit" not in told
    talking.dispose()


def test_the_transaction_only_reads_and_the_engine_stays_as_it_is(table: PgTable) -> None:
    source = table(passages(4))
    source.scan(QUESTION)
    with table.engine.connect() as connection:
        shown = [
            connection.execute(text(f"SHOW {name}")).scalar()
            for name in ("transaction_isolation", "transaction_read_only", "enable_indexscan")
        ]
    assert shown == ["read committed", "off", "on"]
    assert table.engine.hide_parameters is False
