"""Rough scores are within their margin, and what they leave out reaches nothing."""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dpicl_rag.retrieval import vector_rows
from dpicl_rag.retrieval import vectors as scoring
from dpicl_rag.retrieval.base import unit_key
from dpicl_rag.retrieval.stored_record import StoredRecord
from dpicl_rag.retrieval.vector_rows import VectorFile, VectorRows
from dpicl_rag.retrieval.vectors import on_grid
from dpicl_rag.stores import exact_store
from tests.support.snapshot import Snapshot

Vectors = npt.NDArray[np.float64]


def corpus(seed: int) -> tuple[list[StoredRecord], Vectors, Vectors]:
    """Records of some units, their vectors with many ties, and a question."""
    generator = np.random.default_rng(seed)
    count, dimensions = int(generator.integers(1, 60)), int(generator.integers(1, 40))
    vectors = generator.normal(size=(count, dimensions))
    copies = generator.integers(0, count, size=count // 2)
    vectors[generator.permutation(count)[: len(copies)]] = vectors[copies]
    units = generator.integers(0, 1 + count // 2, size=count)
    records = [
        StoredRecord(f"id {row:03}", f"unit {unit}", f"text {row}")
        for row, unit in enumerate(units)
    ]
    return records, vectors, generator.normal(size=dimensions)


def mapped(
    folder: Path, records: list[StoredRecord], vectors: Vectors
) -> tuple[VectorRows, list[str]]:
    """Rows in a file, and the names of their units."""
    names = sorted({record.unit for record in records})
    file = VectorFile(folder / "vectors", vectors.shape[1])
    rows = np.arange(len(records))
    file.write(rows, on_grid(vectors), [names.index(record.unit) + 1 for record in records])
    return file.load(len(records), {}), ["", *names]


def differs(folder: Path, seed: int) -> bool:
    """Whether any search of a file differs from the exact scan of all."""
    records, vectors, question = corpus(seed)
    whole = Snapshot(records, vectors)
    file, names = mapped(folder, records, vectors)
    every = np.sort(whole.unit_scores(whole.scores(question)))
    for least in (-math.inf, *every[::3].tolist(), 0.999):
        for most in (None, 1, 2, 5, len(every)):
            expected = whole.scan(question, least, most)
            near = file.near(question, least, most, None)
            scores = dict(zip([names[u] for u in near.units.tolist()], near.scores, strict=True))
            wanted = dict(zip(expected.units, expected.scores, strict=True))
            # More than wanted may come, below the cut; whoever asks cuts again.
            if wanted != {unit: scores.get(unit) for unit in wanted}:
                return True
            if most is None and scores.keys() != wanted.keys():
                return True
    return False


@pytest.mark.heavy
def test_a_file_finds_what_the_exact_scan_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "BLOCK", 16)
    monkeypatch.setattr(vector_rows, "BLOCK", 16)
    assert not any(differs(tmp_path, seed) for seed in range(200))


def test_a_margin_that_is_too_small_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_rows, "margin", lambda dimensions: 0.0)
    assert any(differs(tmp_path, seed) for seed in range(200))


@pytest.mark.parametrize("dimensions", [1, 3, 384, 4096])
def test_rough_scores_are_within_the_margin(dimensions: int) -> None:
    generator = np.random.default_rng(dimensions)
    for scale in (0.0, 1.0, 30.0):  # from even components to a single large one
        vectors = on_grid(
            generator.normal(size=(500, dimensions)) * np.exp(scale * generator.random(dimensions))
        )
        question = on_grid(np.abs(generator.normal(size=(1, dimensions))))[0]
        for rows in (np.abs(vectors), vectors, np.tile(question, (3, 1))):
            rough = scoring.rough_scores(rows, question)
            exact = scoring.exact_scores(rows, question, np.arange(len(rows)))
            assert np.abs(rough - exact).max() <= scoring.margin(dimensions)


def test_the_edge_is_the_score_of_the_last_of_the_best_units() -> None:
    scores = np.array([0.9, 0.8, 0.8, 0.7, -np.inf, 0.1], dtype=np.float32)
    units = np.array([0, 0, 1, 2, 3, 4], dtype=np.int32)
    expected = [0.9, 0.8, 0.7, 0.1, -np.inf, -np.inf]
    assert [scoring.edge(scores, units, most) for most in range(1, 7)] == pytest.approx(expected)


def test_blocks_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    vectors, question = on_grid(generator.normal(size=(99, 8))), on_grid(np.ones((1, 8)))[0]
    rows = np.arange(99)
    whole = scoring.exact_scores(vectors, question, rows)
    monkeypatch.setattr(scoring, "BLOCK", 7)
    assert np.array_equal(scoring.exact_scores(vectors, question, rows), whole)
    np.testing.assert_allclose(scoring.rough_scores(vectors, question), whole, atol=1e-6)


def test_units_come_in_the_order_of_their_keys() -> None:
    whole = Snapshot([StoredRecord(str(n), f"unit {n}", "") for n in range(30)], np.ones((30, 2)))
    assert list(whole.scan(np.ones(2)).units) == sorted(whole.units, key=unit_key)


def test_scores_are_exact_sums_in_every_bit():
    """Products of numbers on the grid have 48 bits, which float32 does not hold."""
    generator = np.random.default_rng(1)
    gridded = on_grid(generator.normal(size=(40, 24)))
    question = on_grid(generator.normal(size=(1, 24)))[0]
    rows = np.arange(40)
    exact = [
        math.fsum(map(math.prod, zip(row, question.tolist(), strict=True)))
        for row in gridded.tolist()
    ]
    assert scoring.exact_scores(gridded, question, rows).tolist() == exact
    assert exact_store.exact_scores(list(gridded), question).tolist() == exact
