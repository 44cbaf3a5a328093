"""Each unit votes for the words nearest to it, and for none twice."""

import numpy as np

from dpicl_rag.retrieval.unit_vectors import UnitVectors, rounded
from dpicl_rag.retrieval.vectors import on_grid
from dpicl_rag.surveys import vocabulary
from dpicl_rag.surveys.vocabulary import nearest_words

AXES = rounded(np.eye(3, dtype=np.float32))


def units(rows, numbers=None):
    vectors = on_grid(np.array(rows, dtype=np.float64))
    return UnitVectors(vectors, np.arange(len(rows)) if numbers is None else np.array(numbers))


def test_the_nearest_words_have_a_vote_each():
    given = units([[3, 2, 1], [0, 1, 0], [1, 0, 3]])
    assert nearest_words(given.blocks, AXES, 1) == [1, 1, 1, 0]
    assert nearest_words(given.blocks, AXES, 2) == [3, 2, 1, 0]


def test_a_unit_votes_by_its_best_passage_once():
    given = units([[1, 0, 0], [0, 1, 0], [0, 1, 0]], [0, 0, 1])
    assert nearest_words(given.blocks, AXES, 1) == [1, 1, 0, 0]
    assert nearest_words(given.blocks, AXES, 2) == [2, 2, 0, 0]


def test_a_unit_that_is_near_to_nothing_is_counted_as_such():
    given = units([[1, 0, 0], [0.5, 0.5, 0.5], [0, 0, 0]])
    assert nearest_words(given.blocks, AXES, 1, 0.9) == [1, 0, 0, 2]
    assert nearest_words(given.blocks, AXES[:0], 1) == [3]
    assert nearest_words(given.blocks, rounded(np.eye(2, dtype=np.float32)), 1) == [0, 0, 3]


def test_no_word_is_voted_for_twice():
    given = units([[1, 0, 0]])
    assert nearest_words(given.blocks, AXES, 5) == [1, 1, 1, 0]


def test_votes_of_a_unit_are_the_same_in_any_company(monkeypatch):
    monkeypatch.setattr(vocabulary, "_WORDS", 7)
    random = np.random.default_rng(1)
    rows, words = random.normal(size=(30, 64)), rounded(on_grid(random.normal(size=(20, 64))))
    together = np.array(nearest_words(units(rows).blocks, words, 3))
    alone = sum(np.array(nearest_words(units([row]).blocks, words, 3)) for row in rows)
    assert together.tolist() == alone.tolist()
