"""What a question wants is told by its words, in five languages."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from dpicl_rag.languages.request_kinds import asked_for, labels_in, unit_question
from dpicl_rag.requests import Request

QUESTIONS = tomllib.loads(Path(__file__).with_name("request_kinds.toml").read_text("utf-8"))
MOST_WRONG = 3


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_are_of_the_kind_that_people_mean(name):
    asked = [(kind, one) for kind, every in QUESTIONS[name].items() for one in every]
    told = {one: Request.of(None, question=one).settled().kind for _, one in asked}
    wrong = [(one, told[one]) for kind, one in asked if told[one] != kind]
    assert len(asked) == 60
    assert len(wrong) <= MOST_WRONG, wrong


@pytest.mark.parametrize("kind", ["count", "tally", "survey", "summary", "person"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_fact_is_taken_for_nothing_dearer(name, kind):
    """An answer needs many that say the same; what is counted by mistake is paid for."""
    assert not [one for one in QUESTIONS[name]["answer"] if asked_for(one).kind == kind]


@pytest.mark.parametrize(
    ("question", "labels"),
    [
        ("Do they ask for a refund or a repair?", ("a refund", "a repair", "something else")),
        (
            "What is complained about most: lift, heating or water?",
            ("lift", "heating", "water", "something else"),
        ),
        (
            "Y a-t-il plus de plaintes sur l'ascenseur que sur le chauffage ?",
            ("l'ascenseur", "le chauffage", "autre chose"),
        ),
        (
            "Wird mehr über den Aufzug oder über die Heizung geklagt?",
            ("den Aufzug", "die Heizung", "etwas anderes"),
        ),
        (
            "Do customers want refunds or store credit?",
            ("refunds", "store credit", "something else"),
        ),
        ("What do people complain about?", ()),
    ],
)
def test_labels_are_those_that_the_question_names(question, labels):
    assert labels_in(question) == labels


@pytest.mark.parametrize(
    ("question", "each"),
    [
        ("How many mails are about the lift?", "Is it about the lift?"),
        ("What share of the mails is about parking?", "Is it about parking?"),
        ("How many threads mention a price?", "Does it mention a price?"),
        ("How many tenants complain about it?", "Does the tenant complain about it?"),
        ("How many customers who want a refund?", "Does the customer want a refund?"),
        ("How many people have complained about it?", "Has the person complained about it?"),
        ("How many elderly patients have a cough?", "Does the elderly patient have a cough?"),
        ("How many tenants reported mould?", "Has the tenant reported mould?"),
        ("How many tenants need a repair?", "Does the tenant need a repair?"),
        ("How many mails have an attachment?", "Does it have an attachment?"),
        (
            "How many mails in German mention it?",
            "Is this one of them: mails in German mention it?",
        ),
        ("How many mails were written in German?", "Was it written in German?"),
        ("How many patients do not smoke at all?", "Does the patient not smoke at all?"),
        ("How many tenants wrote about it?", "Is this one of the tenants that wrote about it?"),
        ("How many long mails are about it?", "Is the long mail about it?"),
        (
            "Wie viele Mieter klagen über den Aufzug?",
            "Gehört dies dazu: Mieter klagen über den Aufzug?",
        ),
        ("Is it about a refund?", "Is it about a refund?"),
    ],
)
def test_a_unit_is_asked_whether_it_is_one_of_them(question, each):
    assert unit_question(question) == each
