"""Words that lie near each other are one theme, named by the most frequent."""

import numpy as np

from dpicl_rag.surveys.themes import MOST, themes_of

NEAR = np.array([[1.0, 0.1, 0.0], [1.0, 0.0, 0.1], [0.0, 1.0, 0.0]], dtype=np.float32)
NEAR /= np.linalg.norm(NEAR, axis=1, keepdims=True)


def test_near_words_are_grouped_and_the_heaviest_theme_is_first():
    found = themes_of(["stock", "market", "dog"], [5, 9, 30], NEAR)
    assert [theme.words for theme in found] == [("dog",), ("market", "stock")]
    assert found[1].name == "market, stock"


def test_one_word_is_one_theme_and_no_word_is_none():
    assert [theme.name for theme in themes_of(["dog"], [3], NEAR[2:])] == ["dog"]
    assert themes_of([], [], NEAR[:0]) == []


def test_there_are_not_more_themes_than_a_reader_takes_in():
    vectors = np.eye(40, dtype=np.float32)
    vectors[:, 0] += np.linspace(0, 0.5, 40, dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    words = [f"word {number}" for number in range(40)]
    found = themes_of(words, [1] * 40, vectors)
    assert 1 < len(found) <= MOST
    assert sorted(word for theme in found for word in theme.words) == sorted(words)
