"""Words that lie near each other are one theme, named by the most frequent."""

import numpy as np
import pytest

from dpicl_rag.surveys.vocabulary import themes_of

NEAR = np.array([[1.0, 0.1, 0.0], [1.0, 0.0, 0.1], [0.0, 1.0, 0.0]], dtype=np.float32)
NEAR /= np.linalg.norm(NEAR, axis=1, keepdims=True)


def test_near_words_are_grouped_and_the_heaviest_theme_is_first():
    found = themes_of(["stock", "market", "dog"], [5, 9, 30], NEAR)
    assert [theme.words for theme in found] == [("dog",), ("market", "stock")]
    assert found[1].name == "market, stock"
    assert np.linalg.norm(found[1].vector) == pytest.approx(1.0)
    # Nearer to the word of more units.
    assert found[1].vector @ NEAR[1] > found[1].vector @ NEAR[0]


def test_one_word_is_one_theme_and_no_word_is_none():
    assert [theme.name for theme in themes_of(["dog"], [3], NEAR[2:])] == ["dog"]
    assert themes_of([], [], NEAR[:0]) == []
