"""Stores nominate rows, and the grid decides: the margin, the silence, and stores that change."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from dpicl_rag.errors import ConfigurationError, CorpusError, MissingDependencyError
from dpicl_rag.retrieval.stored_record import StoredRecord
from dpicl_rag.retrieval.vectors import VectorSource, on_grid
from dpicl_rag.stores import exact_store
from dpicl_rag.stores.exact_store import ExactStore, ScoredRow, exact_scores, margin
from dpicl_rag.stores.faiss import FaissVectors, _cosines
from dpicl_rag.stores.pg_statements import Table
from dpicl_rag.stores.pgvector import PgVectors
from dpicl_rag.stores.qdrant import QdrantVectors
from tests.support.snapshot import Snapshot
from tests.support.stores import DIMENSION, EMBEDDER, PgTable, Store, passages


@pytest.mark.parametrize("dimension", [1, 2, 8, 384, 1536, 4096])
def test_scores_in_float32_are_within_the_margin(dimension: int) -> None:
    random = np.random.default_rng(dimension)
    rows = random.normal(size=(400, dimension)).astype(np.float32)
    rows[::2] += 3 * rows[0]  # near ones, whose sums are large
    rows[::3] = np.abs(rows[::3])
    question = on_grid(np.abs(rows[:1]))[0]
    true = exact_scores(list(rows), question)
    lengths = np.linalg.norm(rows, axis=1)
    one_by_one = np.zeros(len(rows), dtype=np.float32)
    for column in range(dimension):  # the order that rounds most
        one_by_one += rows[:, column] * question[column]
    for own in (_cosines(rows, question), one_by_one / lengths):
        assert np.abs(own - true).max() < margin(dimension) / 2


def test_scores_are_those_of_a_snapshot() -> None:
    made = passages(12)
    rows = [row.vector for row in made.rows]
    records = [StoredRecord(f"{n:03}", f"{n:03}", "") for n in range(len(rows))]
    snapshot = Snapshot(records, np.array(rows))
    scores = dict(
        zip([r.id for r in snapshot.records], snapshot.scores(made.question), strict=True)
    )
    assert exact_scores(rows, on_grid([made.question])[0]).tolist() == [
        scores[r.id] for r in records
    ]


@pytest.mark.parametrize("vector", [None, "words", [], [1.0], [[1.0] * DIMENSION], [None] * 8])
def test_what_is_no_vector_scores_0(vector: Any) -> None:
    rows = [EMBEDDER.vector, vector]
    assert exact_scores(rows, EMBEDDER.vector).tolist() == [1.0, 0.0]


def test_a_store_is_a_source(store: Store) -> None:
    made = store(passages(1))
    assert isinstance(made, VectorSource)
    found = made.scan(passages(1).question)
    assert "unit" not in repr([made, found])


def test_a_filter_is_checked_before_anything_is_read(store: Store) -> None:
    with pytest.raises(ConfigurationError, match="where is a Chroma filter"):
        store(passages(1)).scan(EMBEDDER.vector, where={"a": 1, "b": 2})


class Changing(ExactStore):
    """A store that loses its nearest units between two looks at it."""

    name = "notes"
    embedder = EMBEDDER
    kind = "store"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def read(self, filter: Any, work: Any) -> Any:
        if self.error is not None:
            raise self.error
        return work(self)

    def best(self, question: Any, count: int) -> Sequence[tuple[str | None, float]]:
        return [("gone", 1.0), (None, 0.9), ("also gone", float("nan")), ("here", 0.5)]

    def near(self, question: Any, floor: float) -> Iterator[ScoredRow]:
        for unit, score in (("here", 0.5), ("far", 0.2)):
            if score >= floor:
                yield ScoredRow(unit, [score, (1 - score * score) ** 0.5] + [0.0] * 6)

    def members(self, units: Sequence[str]) -> Iterator[Any]:
        return iter(())


def test_what_went_makes_room_for_others() -> None:
    found = Changing().scan(EMBEDDER.vector, most=1)
    assert sorted(found.units) == ["far", "here"]
    assert found.passages([0, 1]) == []


def test_errors_of_a_driver_stay_inside() -> None:
    made = Changing(ValueError("Ann has zingpocket disease"))
    with pytest.raises(CorpusError) as caught:
        made.scan(EMBEDDER.vector)
    assert "Ann" not in str(caught.value)
    assert caught.value.__suppress_context__
    with pytest.raises(MemoryError):
        Changing(MemoryError()).scan(EMBEDDER.vector)


@pytest.mark.parametrize(
    ("module", "extra", "make"),
    [
        ("faiss", "faiss", lambda: FaissVectors(None, {}.get, unit_field="u", embedder=EMBEDDER)),
        (
            "qdrant_client",
            "qdrant",
            lambda: QdrantVectors(None, "n", unit_field="u", embedder=EMBEDDER),
        ),
        (
            "sqlalchemy",
            "pgvector",
            lambda: PgVectors(None, Table("n"), unit_field="u", embedder=EMBEDDER),
        ),
    ],
)
def test_a_missing_package_is_named(
    module: str, extra: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf"pip install 'dpicl-rag\[{extra}\]'"):
        make()


def test_texts_are_read_for_chosen_units_alone(table: PgTable, monkeypatch: Any) -> None:
    made = passages(4)
    source = table(made)
    asked: list[list[str]] = []
    true = exact_store._passages
    monkeypatch.setattr(
        exact_store,
        "_passages",
        lambda store, units, query: asked.append(units) or true(store, units, query),
    )
    found = source.scan(made.question)
    assert asked == []
    found.passages([1])
    assert asked == [[found.units[1]]]
