"""The part of a question that asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl_rag.knowledge.answer_memory import asking_part, asks_the_same, shorter_questions


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("When do you open?", "When do you open?"),
        ("I pass by. How early do you open? Thank you.", "How early do you open?"),
        ("A lady writes: When do you open?", "When do you open?"),
        ("May I come? And when?  Bye!", "May I come? And when?"),
        ("Tell me when you open.", "Tell me when you open."),
        ("Fällt es am 3. Dezember aus?", "Fällt es am 3. Dezember aus?"),
        ("Kommt ihr am 3. Dezember? Ich bin da.", "Kommt ihr am 3. Dezember?"),
        ("Is it 6:40 or 7.10?", "Is it 6:40 or 7.10?"),
        ("When?  And how? ", "When?  And how? "),
        ("", ""),
    ],
)
def test_sentences_that_ask(question, part):
    assert asking_part(question) == part


@given(st.text())
def test_no_text_is_an_error_and_a_part_asks_all_that_it_asks(question):
    part = asking_part(question)
    assert part == question or part.endswith("?")
    assert asking_part(part) == part


@pytest.mark.parametrize(
    ("question", "shorter"),
    [
        ("When do you open?", []),
        ("I pass by. How early do you open? Thank you.", ["How early do you open?"]),
        ("Hello! May I come? And when?", ["May I come? And when?", "And when?"]),
        ("May I come? And when?", ["And when?"]),
        ("Tell me when you open.", []),
        ("", []),
    ],
)
def test_shorter_questions(question, shorter):
    assert shorter_questions(question) == shorter


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("When does it open?", "Good morning! When does it open?", True),
        ("I pass by. When does the pool open?", "A lady asks: When does the pool open?", True),
        ("I like the pool. Where is it?", "Where is the pool?", True),
        ("I like the pool. Which town is it in?", "I like the lido. Which town is it in?", False),
        ("Ich mag das Bad. Wo ist es?", "Ich suche das Lager. Wo ist es?", False),
        ("Me gusta la piscina. ¿Dónde está?", "Busco la biblioteca. ¿Dónde está?", False),
    ],
)
def test_a_part_that_names_nothing_asks_nothing_by_itself(one, other, same):
    assert asks_the_same(one, other) == same
    assert asks_the_same(other, one) == same
