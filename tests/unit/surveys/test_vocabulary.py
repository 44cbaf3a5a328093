"""The public list is clean, and one's own is read line by line."""

import numpy as np
import pytest

from dpicl_rag import ConfigurationError
from dpicl_rag.surveys.vocabulary import Vocabulary, packaged_words, words_of_file
from tests.support.bucket_embedder import BucketEmbedder


def test_the_packaged_list_has_each_word_once():
    words = packaged_words()
    assert len(words) == len(set(words)) == 1000
    assert list(words) == sorted(words)
    assert all(word.islower() and len(word) >= 4 for word in words)


def test_a_list_of_ones_own_has_a_word_or_a_phrase_on_each_line(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("late delivery\n\n refund \n")
    assert words_of_file(file) == ("late delivery", "refund")
    with pytest.raises(ConfigurationError, match="a word on each line"):
        words_of_file(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("words", "message"),
    [((), "two words"), (("one",), "two words"), (("a", " "), "empty"), (("a", "a"), "twice")],
)
def test_what_is_no_vocabulary_is_refused(words, message):
    with pytest.raises(ConfigurationError, match=message):
        Vocabulary.embedded(words, BucketEmbedder())


def test_words_that_a_question_is_near_to_are_left_out():
    vectors = np.eye(2, dtype=np.float32)
    words = Vocabulary(("dog", "cat"), vectors)
    assert words.beside(np.array([1, 0], dtype=np.float32)).words == ("cat",)
    assert words.beside(np.array([0, 0], dtype=np.float32)).words == ("dog", "cat")
