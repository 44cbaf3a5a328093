"""The benchmark of scale stores and asks, and its table has a figure in every cell."""

import time

import numpy as np
import pytest

from benchmarks import scale


@pytest.mark.heavy
def test_a_small_corpus(tmp_path):
    row = {"tree": "this", "passages": 600, **scale._store(tmp_path / "store", 600)}
    row.update(scale._ask(tmp_path / "store", 600, time.time()))
    row.update(scale._survey(tmp_path / "store", 600, time.time()))
    assert 0 < row["of it vectors, GB"] < row["disk, GB"]
    lines = scale.markdown([row]).splitlines()
    heads, _, cells = lines[:3]
    assert heads.count("|") == cells.count("|")
    # No more than a hundred units are there to be found.
    assert [cell.strip() for cell in cells.split("|")].count("-") == 0
    assert lines[-1].split("|").count(" - ") == 4


def test_vectors_follow_from_the_number_alone():
    embedder = scale.RandomVectors()
    texts = [f"passage {number} says" for number in (5, 39, 40, 439, 440, 99_999)]
    rows = embedder.embed(texts)
    assert np.array_equal(rows[3], embedder.embed(texts[3:4])[0])
    questions = embedder.embed(["question 0", "question 1"], query=True)
    near = rows @ questions.T > scale.THRESHOLD
    assert near.tolist() == [[True, False]] * 2 + [[False, True]] * 2 + [[False, False]] * 2
