"""Vectors of units come rounded, whole units at a time, and products of them are exact."""

import numpy as np
import pytest

from dpicl_rag.retrieval import unit_vectors
from dpicl_rag.retrieval.unit_vectors import UnitVectors, nearest_passages, rounded
from dpicl_rag.retrieval.vectors import on_grid


def some(count, dimensions=384, seed=1):
    return on_grid(np.random.default_rng(seed).normal(size=(count, dimensions)))


@pytest.mark.parametrize("dimensions", [2, 384, 1536])
def test_a_product_in_float32_is_exact(dimensions):
    left, right = rounded(some(50, dimensions)), rounded(some(40, dimensions, seed=2))
    right[:20] = left[:20]  # the longest products
    exact = left.astype(np.float64) @ right.astype(np.float64).T
    assert np.array_equal((left @ right.T).astype(np.float64), exact)
    for row in range(0, 50, 7):
        assert np.array_equal(left[row : row + 1] @ right.T, (left @ right.T)[row : row + 1])


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_passages_of_a_unit_stay_together_and_those_of_nobody_are_left_out(monkeypatch, rows):
    monkeypatch.setattr(unit_vectors, "_ROWS", rows)
    vectors = some(8)
    units = UnitVectors(vectors, np.array([2, 0, -1, 2, 1, 0, 2, 5]))
    found = []
    for block, firsts in units.blocks():
        assert firsts[0] == 0
        found += np.split(block, firsts[1:])
    expected = [[1, 5], [4], [0, 3, 6], [7]]
    assert len(found) == len(expected)
    for own, places in zip(found, expected, strict=True):
        assert np.array_equal(own, rounded(vectors[places]))


def test_of_nobody_there_is_no_block():
    assert list(UnitVectors(some(2), np.array([-1, -1])).blocks()) == []
    assert list(UnitVectors(some(0), np.zeros(0, dtype=int)).blocks()) == []


def test_the_nearest_passage_of_each_unit_is_found():
    question = np.array([1.0, 0.0], dtype=np.float32)
    vectors = np.array([[0, 1], [1, 0], [1, 0], [0.6, 0.8], [-1, 0]], dtype=np.float32)
    units = UnitVectors(vectors, np.array([0, 0, 0, 1, 2]))
    ((near, firsts),) = nearest_passages(units.blocks, question)
    assert near.tolist() == rounded(vectors[[1, 3, 4]]).tolist()  # of equals the first
    assert firsts.tolist() == [0, 1, 2]
    ((near, _),) = nearest_passages(units.blocks, question, 0.5)
    assert len(near) == 2


def test_vectors_of_another_length_are_near_to_nothing():
    units = UnitVectors(some(2, 3), np.array([0, 1]))
    ((near, _),) = nearest_passages(units.blocks, np.ones(2, dtype=np.float32))
    assert len(near) == 2
    ((near, _),) = nearest_passages(units.blocks, np.ones(2, dtype=np.float32), 0.1)
    assert len(near) == 0
