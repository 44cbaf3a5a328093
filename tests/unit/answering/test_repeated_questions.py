"""Answers that say nothing that was not asked."""

import pytest

from dpicl_rag.answering.written_sentences import only_repeats


@pytest.mark.parametrize(
    ("question", "answer", "repeats"),
    [
        ("Is the lift red or blue?", "The lift is blue.", False),
        ("Ist das Rad rot oder blau?", "Rot.", False),
        ("When does the depot open?", "The depot opens.", True),
        ("When does the depot open?", "The depot opens at 8.", False),
        ("When does the depot open?", "", True),
        ("Is the depot open?", "Yes, the depot is open.", False),
        ("Is the depot open?", "No.", False),
        ("Is the depot open?", "The depot is open.", True),
        ("Wann öffnet das Lager?", "Das Lager öffnet.", True),
        ("Wann öffnet das Lager?", "Das Lager öffnet montags.", False),
        ("Ist das Lager offen?", "Ja.", False),
        ("Où est la clé ?", "La clé est là où elle est.", False),
        ("¿Quién tiene la llave?", "La llave la tiene Ida.", False),
        ("Chi ha la chiave?", "La chiave.", True),
    ],
)
def test_what_has_no_word_of_its_own_only_repeats(question, answer, repeats):
    assert only_repeats(question, answer) == repeats


def test_an_answer_that_begins_with_a_worked_example_repeats_it():
    shown = "The snail eats only moss. The kite is teal."
    question = "Which courses are there?"
    assert only_repeats(question, "The kite is teal. The course is yoga.", shown)
    assert not only_repeats(question, "Yoga. The kite is teal.", shown)
    assert not only_repeats(question, "The kite course.", "The snail eats only moss.")
