"""The names and numbers of a sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl_rag.answering.canonical_form import asks_how, canonical_form, short_form
from dpicl_rag.languages.content_words import content_words
from dpicl_rag.languages.languages import language_of


def short(question, sentence):
    form = canonical_form(sentence)
    assert form is not None
    return short_form(form, content_words(question))


REFUND, NAME = "After how many days does a refund arrive?", "What is the Breezer 2 called now?"


@pytest.mark.parametrize(
    ("question", "sentence", "form"),
    [
        (REFUND, "The refund arrives after nine working days.", "9 working days"),
        (REFUND, "It takes 9 working days, like every refund", "9 working days"),
        (REFUND, "The refund arrives 9 days after the order", "9 days"),
        (NAME, "The Breezer 2 is now called the Zephyrix", "Zephyrix"),
        (NAME, "GALEHOP is the code", "GALEHOP"),
        ("What time does it open?", "The warehouse opens at 06:40 in the morning", "6:40"),
        ("Who has the fleet?", "Ilse Farquar looks after it", "Ilse Farquar"),
        (
            "In which street is it?",
            "It is in Tallow Street, near the Old Port",
            "Tallow Street Old Port",
        ),
        ("What sudden thing?", "Sudden Onset Finger SODTLS", "Sudden Onset Finger SODTLS"),
        ("Which street is it?", "The office is in Street Tallow", "Street Tallow"),
        ("Is it the Breezer?", "Breezer is sold by Ilse Farquar", "Ilse Farquar"),
        ("On which day?", "We take stock on March 3rd", "3 March"),
        # The first word has a capital anyhow.
        ("What does it eat?", "Moss is all it eats", "Moss is all it eats"),
        ("What does it eat?", "It eats only moss", "It eats only moss"),
    ],
)
def test_names_and_numbers_that_the_question_lacks(question, sentence, form):
    assert short(question, sentence) == form


@pytest.mark.parametrize(
    ("question", "sentence", "form"),
    [
        ("How much is a place?", "It costs 45 EUR per month", "45 EUR"),
        (
            "Warum fällt das Gas aus?",
            "Es gibt Arbeiten der Stadtwerke",
            "Es gibt Arbeiten der Stadtwerke",
        ),
        ("Wann fällt das Gas aus?", "Das Gas wird 12 Uhr abgestellt", "12 Uhr"),
        ("Wie lange dauert es?", "Es dauert 9 Werktage im Mai", "9 Werktage Mai"),
        ("Wer leitet den Chor?", "Den Chor leitet Jorun Haas", "Jorun Haas"),
    ],
)
def test_short_forms_end_at_a_phrase(question, sentence, form):
    assert short_form(sentence, content_words(question), language_of(question)) == form


@pytest.mark.parametrize(
    ("question", "how"),
    [
        ("How do I clear error E47?", True),
        ("Why is it red?", True),
        ("What should I do when it shows E47?", True),
        ("How long does it take?", False),
        ("How many are there?", False),
        ("What do customers complain about?", False),
        ("Who is it?", False),
    ],
)
def test_how_and_why_ask_for_more(question, how):
    assert asks_how(question) == how


@pytest.mark.heavy
@given(st.text(min_size=1), st.text())
def test_no_text_is_an_error_and_nothing_is_added(sentence, question):
    form = canonical_form(sentence)
    if form is not None:
        found = short_form(form, content_words(question))
        assert found
        assert set("".join(found.split())) <= set(form)
