"""A released form as it is shown."""

import pytest

from dpicl_rag.answering.canonical_form import canonical_form, shown_form


@pytest.mark.parametrize(
    ("question", "form", "shown"),
    [
        ("How long does a refund take?", "refund takes 9 days", "A refund takes 9 days"),
        ("What time does the warehouse open?", "warehouse opens at 6", "The warehouse opens at 6"),
        ("When do warehouses open?", "warehouse opens at 6", "Warehouse opens at 6"),
        ("Who has the fleet?", "person with fleet is Ada", "Person with the fleet is Ada"),
        ("How long does a refund take?", "no refund takes 9 days", "No refund takes 9 days"),
        ("Who sends the refunds?", "9 refunds are sent by Ada", "9 refunds are sent by Ada"),
        ("What is it?", "9 working days", "9 working days"),
        # A form of one's own may have articles.
        ("How long does a refund take?", "a refund takes 9 days", "A refund takes 9 days"),
    ],
)
def test_the_articles_of_the_question_come_back(question, form, shown):
    assert shown_form(form, question, begins=True) == shown


def test_behind_a_beginning_it_stays_as_it_is():
    assert shown_form("plonkitis", "Which disease is it?", begins=False) == "plonkitis"


@pytest.mark.parametrize("form", ["refund takes 9 days", "Zephyrix", "It opens at 6:40 in morning"])
def test_nothing_but_articles_is_added(form):
    shown = shown_form(form, "Does the refund open in a morning at the 9?", begins=True)
    assert canonical_form(shown).casefold() == form.casefold()
