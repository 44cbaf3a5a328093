from __future__ import annotations

import pytest

from dpicl_rag.knowledge.answer_memory import same_words


@pytest.mark.parametrize(
    "other",
    [
        "when does the canteen open",
        "  When does\tthe canteen\n open ?!",
        "WHEN DOES THE CANTEEN OPEN...",
        "\uff37hen does the canteen open\uff1f",  # full-width
        "When does the canteen open\u2026",
        "When does the canteen open\u061f",
    ],
)
def test_width_case_space_and_the_ending_mark_make_no_difference(other):
    assert same_words(other) == same_words("When does the canteen open?")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is C?", "What is C#?"),
        ("Is he a resident?", "Is he a president?"),
        ("What does .net cost?", "What does net cost?"),
        ("Who isn't coming?", "Who is coming?"),
        ("a b", "ab"),
    ],
)
def test_another_question_is_another_one(one, other):
    assert same_words(one) != same_words(other)


def test_a_question_of_marks_alone_keeps_them():
    assert same_words("???") == "???" != same_words("!")


def test_comparing_again_changes_nothing():
    # Folding the case of some letters undoes their composed form.
    for text in ("\u0390", "\u1e9e", "\ufb03", "\u0130stanbul?"):
        assert same_words(same_words(text)) == same_words(text)
