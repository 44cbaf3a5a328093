"""The end of a sentence that a row says by itself."""

import math

import pytest

from dpicl_rag.language_models.sentence_end import NEARLY, Continuation, SentenceEnd
from tests.support.tiny_model import build_tiny_model

VOCABULARY = {
    "</s>": 0,
    "A": 1,
    "\u0120refund": 2,
    ".": 3,
    "40": 4,
    "\u0120It": 5,
    "\u010a": 6,
    "?!": 7,
    "\u0120crowns": 8,
    "\u0120per": 9,
    "\u0120November": 10,
    "Mr": 11,
}
TEXT = {
    token: text.replace("\u0120", " ").replace("\u010a", "\n") for text, token in VOCABULARY.items()
}
END = SentenceEnd(frozenset({0}), VOCABULARY, lambda ids: "".join(TEXT[token] for token in ids))


def said(*tokens, ends=None):
    quiet = (-math.inf,) * len(tokens)
    return Continuation(tokens, (-0.5,) * len(tokens), quiet if ends is None else ends)


@pytest.mark.parametrize(
    ("tokens", "at"),
    [
        ((1, 2, 3, 5), 2),
        ((1, 2, 3, 0), 2),
        ((1, 2, 3, 6), None),  # no space that a tokenizer would know: the line ends it
        ((1, 2, 6), 2),
        ((1, 2, 0), 2),
        ((0, 1), 0),
        ((1, 2), None),
        ((4, 3, 4, 2), None),
        ((4, 3), None),
        ((1, 7, 5), 1),
    ],
)
def test_marks_lines_and_the_end_of_an_answer_end_it(tokens, at):
    found = END.at(said(*tokens))
    assert found == (2 if tokens == (1, 2, 3, 6) else at)


def test_where_it_could_end_it_does():
    likely = -0.5
    for gap, at in ((NEARLY - 0.01, 2), (NEARLY + 0.01, None)):
        ends = (0.0, -math.inf, likely - gap, -math.inf)
        assert END.at(said(1, 2, 5, 2, ends=ends)) == at


def test_where_it_says_nothing_new_it_goes_on():
    known = END.words((2,))
    assert known == {"refund"}
    ends = (0.0, -0.5, -0.5, -0.5)
    assert END.at(said(1, 2, 8, 2, ends=ends), known) == 3
    assert END.at(said(1, 2, 8, 2, ends=ends)) == 2
    assert END.at(said(2, 3, 5), known) == 1  # but at a mark, as it says so itself


def test_of_words_that_cannot_be_read_nobody_is_told():
    def decode(token_ids):
        raise ValueError("private words")

    end = SentenceEnd(frozenset({0}), VOCABULARY, decode)
    assert end.words((1, 2)) == frozenset()
    assert end.at(said(1, 2, 4, 2, ends=(-0.5,) * 4)) is None


def test_nothing_ends_before_it_begins():
    assert END.at(said(1, 2, ends=(0.0, -math.inf))) is None


def test_a_mark_inside_a_number_is_no_end():
    assert END.at(said(4, 3, 4, ends=(-9.0, -0.5, -9.0))) is None


def test_nothing_ends_within_a_number_or_behind_a_word_that_leads_on():
    likely = (-9.0, -0.5, -0.5, -0.5)
    assert END.at(said(2, 4, 4, 5, ends=likely)) == 3  # "8:30" is no "8"
    assert END.at(said(4, 8, 9, 5, ends=(-9.0, -9.0, -9.0, -0.5))) is None  # "40 crowns per"
    assert END.at(said(4, 8, 5, 5, ends=(-9.0, -9.0, -0.5, -0.5))) == 2


@pytest.mark.parametrize(
    ("tokens", "at"), [((4, 3, 10, 2), None), ((4, 3, 5, 2), 1), ((11, 3, 2, 2), None)]
)
def test_a_point_that_abbreviates_ends_nothing(tokens, at):
    assert END.at(said(*tokens)) == at


def test_without_knowledge_of_ends_only_what_is_said_counts():
    assert END.at(Continuation((1, 2, 0), (-0.5,) * 3)) == 2
    assert END.at(Continuation((1, 2, 5), (-0.5,) * 3)) is None


def test_a_tokenizer_knows_its_own():
    tokenizer = build_tiny_model().tokenizer
    end = tokenizer.sentence_end
    assert tokenizer.stop_tokens <= end.tokens
    assert end is tokenizer.sentence_end
    assert end.indices.tolist() == sorted(end.tokens)
