"""The canonical form of a sentence."""

import pytest

from dpicl_rag.answering.canonical_form import canonical_form, first_sentence


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (" A refund takes  9\nworking days. ", "A refund takes 9 working days"),
        ('"Zephyrix"', "Zephyrix"),
        ("\ufb01ve \uff15", "five 5"),
        ("", None),
        (" .!", None),
        ("a\u202eb", None),
    ],
)
def test_what_two_must_have_in_common(text, form):
    assert canonical_form(text) == form


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
