"""Words that carry what a text says."""

import threading
from functools import partial

import pytest
import snowballstemmer
import text_to_num
from hypothesis import given
from hypothesis import strategies as st

from dpicl_rag.languages.content_words import content_words, digits_for_words
from tests.support.at_once import at_once


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It takes nine days.", "take 9 day"),
        ("The warehouse opens", "opening of warehouses"),
        ("Twelve seconds", "12 second"),
        ("\uff15 LITRES", "five litre"),
        ("the and of", ""),
    ],
)
def test_endings_case_and_digits_say_nothing(one, other):
    assert content_words(one) == content_words(other)


@pytest.mark.parametrize(
    ("one", "other"), [("9 days", "10 days"), ("6:40", "6:04"), ("Ada", "Ida")]
)
def test_what_differs_differs(one, other):
    assert content_words(one) != content_words(other)


def test_a_long_word_is_cut_alike_wherever_it_stands():
    long = "kite" * 100
    assert max(map(len, content_words(long))) <= 99
    assert content_words(long) <= content_words(f"They fly a {long} today.")


@given(st.text())
def test_no_text_is_an_error(text):
    assert all(isinstance(word, str) for word in content_words(text))


def test_threads_stem_words_of_their_own(monkeypatch):
    """All stop within their first word: who shared a stemmer would go on with another's."""
    texts = [f"warehouses{at}" for at in range(7)] + ["relationally"]
    alone = [content_words(text) for text in texts]
    everybody = threading.Barrier(len(texts))
    kind = type(snowballstemmer.stemmer("english"))
    usual = kind.set_current

    def set_current(self, word):
        usual(self, word)
        if word:
            everybody.wait(10)

    monkeypatch.setattr(kind, "set_current", set_current)
    assert at_once([partial(content_words, text) for text in texts]) == alone


@pytest.mark.parametrize("text", ["one two " * 8_000, "x" * 9_000, "two\n" * 5_000])
def test_numbers_are_read_in_pieces_that_hold_nobody_up(text, monkeypatch):
    """Their reader takes the square of a length, and lets no other thread go on meanwhile."""
    lengths = []
    real = text_to_num.alpha2digit

    def counted(piece, language):
        lengths.append(len(piece))
        return real(piece, language)

    monkeypatch.setattr(text_to_num, "alpha2digit", counted)
    assert digits_for_words(text) == text.replace("one", "1").replace("two", "2")
    assert max(lengths) <= 2_000
