import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpicl_rag.retrieval.base import unit_key
from dpicl_rag.retrieval.stored_record import StoredRecord
from dpicl_rag.retrieval.vectors import on_grid
from tests.support.snapshot import Snapshot


def snapshot(vectors: np.ndarray) -> Snapshot:
    records = [StoredRecord(str(row), f"unit {row}", "text") for row in range(len(vectors))]
    return Snapshot(records, vectors)


def test_rows_are_unit_vectors_on_the_grid() -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 384)) * 7
    rows = on_grid(vectors)
    assert rows.dtype == np.float32
    assert np.array_equal(rows * 2.0**24, np.rint(rows * 2.0**24))
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(rows, expected, atol=2**-24)


@given(
    hnp.arrays(
        np.float64,
        (6, 3),
        elements=st.floats(allow_nan=True, allow_infinity=True),
    )
)
def test_any_row_at_all_gives_a_row_that_depends_on_it_alone(vectors: np.ndarray) -> None:
    rows = on_grid(vectors)
    assert np.isfinite(rows).all()
    for row, vector in zip(rows, vectors, strict=True):
        assert np.array_equal(on_grid(vector[None])[0], row)
        usable = np.isfinite(vector).all() and vector.any()
        assert np.linalg.norm(row) == pytest.approx(1 if usable else 0, abs=1e-6)


def test_scores_are_exact() -> None:
    generator = np.random.default_rng(1)
    vectors, question = generator.normal(size=(5, 384)), generator.normal(size=384)
    whole = snapshot(vectors)
    query = [Fraction(float(component)) for component in on_grid(question[None])[0]]
    for row, score in zip(whole.vectors, whole.scores(question), strict=True):
        terms = (Fraction(float(a)) * b for a, b in zip(row, query, strict=True))
        assert Fraction(float(score)) == sum(terms)


def test_a_score_does_not_move_with_the_number_of_rows() -> None:
    generator = np.random.default_rng(2)
    vectors, question = generator.normal(size=(1003, 384)), generator.normal(size=384)
    whole = snapshot(vectors)
    scores = dict(zip((r.unit for r in whole.records), whole.scores(question), strict=True))
    for count in (1, 2, 3, 7, 64, 501):
        part = snapshot(vectors[:count])
        for record, score in zip(part.records, part.scores(question), strict=True):
            assert scores[record.unit] == score


def test_rows_of_a_unit_stand_together_in_an_order_that_no_insertion_changes() -> None:
    generator = np.random.default_rng(4)
    records = [StoredRecord(f"id {row}", f"unit {row % 7}", "text") for row in range(40)]
    vectors = generator.normal(size=(40, 4))
    order = generator.permutation(40)
    whole = Snapshot([records[row] for row in order], vectors[order])
    assert sorted(whole.units) == sorted({record.unit for record in records})
    seen = [record.unit for record in whole.records]
    assert seen == [unit for unit in whole.units for _ in range(seen.count(unit))]
    assert [seen[start] for start in whole.starts[:-1]] == whole.units
    without = [row for row in range(40) if row % 7 != 3]
    part = Snapshot([records[row] for row in without], vectors[without])
    assert part.units == [unit for unit in whole.units if unit != "unit 3"]


def test_the_order_of_units_does_not_follow_their_names() -> None:
    names = [f"2001-05-{day:02d}" for day in range(1, 31)]
    assert sorted(names, key=unit_key) != names


@pytest.mark.parametrize("most", [None, 1, 2, 3, 7, 8, 99])
def test_a_scan_finds_the_units_that_reach_a_score_and_of_these_the_best_with_ties(
    most: int | None,
) -> None:
    generator = np.random.default_rng(6)
    vectors = generator.integers(-1, 2, size=(30, 3)).astype(float)  # many ties
    records = [StoredRecord(f"id {row:02}", f"unit {row % 8}", f"text {row}") for row in range(30)]
    whole = Snapshot(records, vectors)
    question = np.array([1.0, 0.5, 0.25])
    scores = whole.scores(question)
    best = dict(zip(whole.units, whole.unit_scores(scores), strict=True))
    for least in (-math.inf, -0.3, 0.5, 2.0):
        edge = sorted(best.values())[-most] if most is not None and most < 8 else -math.inf
        expected = {unit: score for unit, score in best.items() if score >= max(least, edge)}
        found = whole.scan(question, least, most)
        assert dict(zip(found.units, found.scores, strict=True)) == expected
        assert list(found.units) == sorted(expected, key=unit_key)
        for index, unit in enumerate(found.units):
            own = {f"text {row}" for row in range(30) if row % 8 == int(unit[-1])}
            every = found.passages([index])
            assert {passage.document.text for passage in every} == own
            assert [p.score for p in every] == sorted((p.score for p in every), reverse=True)
            assert found.passages([index], 2) == every[:2]


def test_an_empty_snapshot() -> None:
    empty = Snapshot([], np.zeros((0, 0)))
    assert empty.units == []
    assert empty.unit_scores(empty.scores(np.ones(4))).shape == (0,)


def test_representations_say_nothing() -> None:
    record = StoredRecord("id", "secret unit", "secret text", {"secret": "value"})
    assert "secret" not in repr(record) + repr(Snapshot([record], np.ones((1, 2))))
