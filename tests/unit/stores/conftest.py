"""The stores, each as a function from passages to a source."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine

from tests.support import postgres as server
from tests.support.stores import PgTable, Store, in_faiss, in_qdrant


@pytest.fixture(scope="session")
def engine(postgres: str) -> Iterator[Engine]:
    made = create_engine(server.url(postgres))
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def table(engine: Engine) -> PgTable:
    return PgTable(engine)


@pytest.fixture(params=["pgvector", "Qdrant", "FAISS", "FAISS with ids"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "pgvector":
        return request.getfixturevalue("table")
    return {
        "Qdrant": in_qdrant,
        "FAISS": in_faiss,
        "FAISS with ids": lambda given: in_faiss(given, mapped=True, metric="IndexFlatL2"),
    }[request.param]
