"""What one expert votes for."""

import pytest

from dpicl_rag.answering.canonical_form import canonical_form, vote_for
from dpicl_rag.languages.content_words import content_words

REFUND = "How long does a refund take?"


def test_a_sentence_and_its_names_and_numbers():
    found = vote_for("It takes nine working days.", REFUND, canonical_form)
    assert found.short == "9 working days"
    assert found.sentence == canonical_form("It takes nine working days.")
    assert found.words == {"9", "work", "day"}


def test_who_asks_how_asks_for_all_of_it():
    found = vote_for("Hold reset for ten days.", "How do I clear it?", canonical_form)
    assert found.short == found.sentence == "Hold reset for 10 days"


def test_a_form_of_ones_own_is_the_only_one():
    found = vote_for("It takes nine days.", REFUND, str.upper)
    assert found.short == found.sentence == "IT TAKES NINE DAYS."


@pytest.mark.parametrize("form", [lambda text: None, lambda text: " ", lambda text: 1 / 0])
def test_what_a_form_cannot_read_is_no_vote(form):
    assert vote_for("Nine days.", REFUND, form) is None


def test_words_that_cannot_be_read_are_no_vote(monkeypatch):
    def content_words(text):
        if text != REFUND:
            raise ValueError("private words")
        return frozenset()

    monkeypatch.setattr("dpicl_rag.answering.canonical_form.content_words", content_words)
    assert vote_for("Nine days.", REFUND, canonical_form) is None


def test_a_vote_tells_nothing():
    assert "days" not in repr(vote_for("Nine days.", REFUND, canonical_form))


@pytest.mark.parametrize(
    ("document", "sentence", "short"),
    [
        ("You calculate nine working days.", "You must calculate 9 working days", "9 working days"),
        ("It takes nine working days.", None, "9 working days"),
        ("You calculate nine days.", None, None),
        ("You calculate.", None, None),
    ],
)
def test_a_document_carries_a_sentence_or_its_names_and_numbers_alone(document, sentence, short):
    vote = vote_for("You must calculate nine working days.", REFUND, canonical_form)
    found = vote.within(content_words(document))
    assert (found and found.sentence, found and found.short) == (sentence, short)


@pytest.mark.parametrize(
    ("question", "said"),
    [("How do I clear it?", "Hold reset for ten days."), (REFUND, "It needs patience.")],
)
def test_of_a_sentence_that_is_its_own_short_form_a_document_carries_all(question, said):
    vote = vote_for(said, question, canonical_form)
    assert vote.within(content_words(said)) == vote
    assert vote.within(content_words(said) - {min(vote.words)}) is None
