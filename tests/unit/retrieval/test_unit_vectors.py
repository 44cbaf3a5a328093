"""Vectors of units come rounded, whole units at a time, and products of them are exact."""

from functools import partial

import numpy as np
import pytest

from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval import unit_vectors
from dpicl_rag.retrieval.unit_vectors import UnitVectors, nearest_passages, rounded
from dpicl_rag.retrieval.vector_rows import VectorRows, checksums
from dpicl_rag.retrieval.vectors import on_grid
from dpicl_rag.surveys.vocabulary import nearest_words


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
    assert near.tolist() == rounded(vectors[[1, 2, 3, 4]]).tolist()
    assert firsts.tolist() == [0, 2, 3]
    ((near, _),) = nearest_passages(units.blocks, question, 0.5)
    assert len(near) == 3


def test_equally_near_passages_vote_alike_in_whatever_rows_they_stand():
    question = np.array([1.0, 0.0, 0.0], dtype=np.float32)
    vectors = np.array([[0.6, 0.8, 0], [0.6, 0, 0.8]], dtype=np.float32)
    votes = set()
    for order in ([0, 1], [1, 0]):
        units = UnitVectors(vectors[order], np.array([0, 0]))
        blocks = partial(nearest_passages, units.blocks, question)
        votes.add(tuple(nearest_words(blocks, rounded(np.eye(3, dtype=np.float32)), 1)))
    assert len(votes) == 1


def test_rows_that_were_overwritten_are_zero():
    vectors = some(4, 6)
    rows = VectorRows(5, vectors.copy(), np.array([1, 2, 3, 4], dtype=np.int32), checksums(vectors))
    units = rows.unit_vectors({1: "a", 2: "b", 3: "c", 4: "d"})
    ((before, _),) = units.blocks()
    assert np.array_equal(before, rounded(vectors[:, :5]))
    rows.vectors[1] = vectors[3]  # a unit that came meanwhile, in the row of one that went
    ((after, _),) = units.blocks()
    assert not after[1].any()
    assert np.array_equal(after[[0, 2, 3]], before[[0, 2, 3]])


def test_vectors_of_another_length_are_near_to_nothing():
    units = UnitVectors(some(2, 3), np.array([0, 1]))
    ((near, _),) = nearest_passages(units.blocks, np.ones(2, dtype=np.float32))
    assert len(near) == 2
    ((near, _),) = nearest_passages(units.blocks, np.ones(2, dtype=np.float32), 0.1)
    assert len(near) == 0


def test_a_coin_keeps_a_whole_unit_or_none_of_it():
    units = UnitVectors(some(6, 3), np.array([0, 0, -1, 1, 1, 2]))
    assert units.sampled(1.0, Coins([])) is units
    kept = units.sampled(0.5, Coins([0.4, 0.6, 0.4]))  # one for each unit, none for nobody's
    assert kept.unit.tolist() == [0, 0, -1, -1, -1, 2]


def test_names_are_of_the_units_that_are_there():
    names = {0: "a", 1: "b", 2: "c"}
    units = UnitVectors(some(5, 3), np.array([2, 0, -1, 0, 5]), names)
    assert units.named() == {0: "a", 2: "c"}  # 5 was deleted meanwhile
    assert units.of([2]).unit.tolist() == [2, -1, -1, -1, -1]
    assert units.of([2]).named() == {2: "c"}
    assert units.of([]).named() == {}


class Coins(Randomness):
    """Coins that fell before."""

    def __init__(self, fallen):
        self.fallen = fallen

    def uniform(self):
        return self.fallen.pop(0)
