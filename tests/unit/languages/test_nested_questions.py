"""Nested questions: what they describe is asked for first."""

import pytest

from dpicl_rag.languages.nested_questions import name_in, nested_question


@pytest.mark.parametrize(
    ("question", "first", "then"),
    [
        (
            "When does the person in charge of invoices have office hours?",
            "Who is in charge of invoices?",
            "When does X have office hours?",
        ),
        (
            "Where is the office of the colleague who runs the choir?",
            "Who runs the choir?",
            "Where is the office of X?",
        ),
        (
            "What is the postcode of the town where the calibration workshop is?",
            "Where is the calibration workshop?",
            "What is the postcode of X?",
        ),
        (
            "What is the phone number of the person in charge of the room where the sauna is?",
            "Where is the sauna?",
            "What is the phone number of the person in charge of X?",
        ),
        (
            "Wann hat die für Rechnungen zuständige Person Sprechstunde?",
            "Wer ist für Rechnungen zuständig?",
            "Wann hat X Sprechstunde?",
        ),
        (
            "Wie ist die Telefonnummer der Kollegin, die den Chor leitet?",
            "Wer leitet den Chor?",
            "Wie ist die Telefonnummer von X?",
        ),
        (
            "Ist der Kollege, der die Schlüssel verwaltet, heute da?",
            "Wer verwaltet die Schlüssel?",
            "Ist X heute da?",
        ),
        (
            "Quel est le bureau du collègue qui gère les clés ?",
            "Qui gère les clés ?",
            "Quel est le bureau de X ?",
        ),
        (
            "¿Cuándo atiende la persona encargada de las facturas?",
            "¿Quién es encargada de las facturas?",
            "¿Cuándo atiende X?",
        ),
        (
            "Qual è il numero della persona che dirige il coro?",
            "Chi dirige il coro?",
            "Qual è il numero di X?",
        ),
    ],
)
def test_what_is_described_is_asked_for_first(question, first, then):
    found = nested_question(question)
    assert (found.first, found.about("X")) == (first, then)


@pytest.mark.parametrize(
    "question",
    [
        "When does the warehouse open?",
        "Who is the person in charge of invoices?",
        "Who repairs the lift?",
        "What did the person who wrote to me say?",
        "Wann öffnet die Halle, in der Stadt?",
        "Where is the office of Ms Weber?",
    ],
)
def test_a_question_that_names_all_it_asks_about_is_asked_at_once(question):
    assert nested_question(question) is None


@pytest.mark.parametrize(
    ("answer", "question", "name"),
    [
        ("Ms Weber is in charge of invoices.", "Who is in charge of invoices?", "Ms Weber"),
        (
            "Invoices are handled by Dr. Weber.",
            "Who is in charge of invoices?",
            "Dr. Weber",
        ),
        ("The workshop is in Lund.", "Where is the workshop?", "Lund"),
        ("Frau Weber ist zuständig.", "Wer ist für Rechnungen zuständig?", "Frau Weber"),
        ("Weber", "Who is in charge of invoices?", "Weber"),
        ("The caretaker is in charge of keys.", "Who is in charge of keys?", "caretaker"),
        ("Keys.", "Who is in charge of keys?", None),
    ],
)
def test_the_name_in_an_answer(answer, question, name):
    assert name_in(answer, question) == name
