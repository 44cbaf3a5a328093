"""The canonical form of a sentence."""

import pytest

from dpicl_rag.answering.canonical_form import canonical_form
from dpicl_rag.languages.sentences import first_sentence


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (" A refund takes  9\nworking days. ", "refund takes 9 working days"),
        ("The refund takes nine working days", "refund takes 9 working days"),
        ('"Zephyrix"', "Zephyrix"),
        (
            "The Breezer 2 is now called the \u201cZephyrix\u201d",
            "Breezer 2 is now called Zephyrix",
        ),
        ("Plan A is for a home", "Plan A is for home"),
        ("\ufb01ve \uff15", "5 5"),
        ("It costs forty-three crowns", "It costs 43 crowns"),
        ("It costs 43.00 crowns", "It costs 43 crowns"),
        ("It costs 3.50, version 3.10", "It costs 3.50, version 3.10"),
        ("It opens at 06:40", "It opens at 6:40"),
        ("It opens at 6.40 a.m.", "It opens at 6:40 am"),
        ("It opens at 6:40AM", "It opens at 6:40 am"),
        ("on the third of March", "on 3 March"),
        ("on March 3rd", "on 3 March"),
        ("on 3 March", "on 3 March"),
        ("You may 3 times", "You may 3 times"),
        ("Hold it for 12 s", "Hold it for 12 seconds"),
        ("Hold it for twelve sec.", "Hold it for 12 seconds"),
        ("", None),
        (" .!", None),
        ("a\u202eb", None),
    ],
)
def test_what_two_must_have_in_common(text, form):
    assert canonical_form(text) == form


@pytest.mark.parametrize(
    "text", ["The refund takes nine days", "on March 3rd at 06:40", "Hold it for 12 s", "A a the"]
)
def test_the_form_of_a_form_is_itself(text):
    form = canonical_form(text)
    assert form is None or canonical_form(form) == form


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("It opens at 6:40. Come early.", "It opens at 6:40"),
        ("It costs 3.5 euros", "It costs 3.5 euros"),
        ("\n One line\nAnother", "One line"),
        ('He said "no." Then', 'He said "no'),
        ("", ""),
    ],
)
def test_a_sentence_ends_before_white_space(text, first):
    assert first_sentence(text) == first
