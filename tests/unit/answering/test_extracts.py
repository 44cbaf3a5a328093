"""What experts of the packaged model read: of each unit a sentence, whoever else is there."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, combinations

import pytest

from dpicl_rag import Document, Ledger, PrivateContextLLM
from dpicl_rag.answering.extracts import extracts, keys_of_extract
from dpicl_rag.answering.proposals import Proposal
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.sentence_votes import naming_of, sentence_votes
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.rehearsal.rehearsal_items import rehearsal_items
from dpicl_rag.requests import Request
from dpicl_rag.results import UNSUPPORTED
from tests.support.bucket_embedder import BucketEmbedder

OPENS = "When does the pool open?"
UNITS = (
    ("The pool opens at 6:45. At 8:00 the pool is warm, and green where it rains.",),
    ("When does the pool open?\n\nThe water is cold.",),
    ("I lost my towel.", "The pool opens at 06:45."),
    ("The office is closed.",),
    ("The pool opens at 9:30.",),
    ("The pool opens soon.",),
    ("",),
)


class Words(BucketEmbedder):
    dimension = 256
    fingerprint = "words"


def read(question, units):
    return extracts(question, Words())([tuple(own) for own in units])


def test_a_unit_is_its_sentence_that_is_nearest_to_the_question():
    assert read(OPENS, UNITS) == [
        ("The pool opens at 6:45",),
        (),
        ("The pool opens at 06:45",),
        (),
        ("The pool opens at 9:30",),
        (),
        (),
    ]


def test_an_extract_depends_on_its_own_unit_alone():
    whole = dict(zip(UNITS, read(OPENS, UNITS), strict=True))
    every = chain.from_iterable(combinations(UNITS, many) for many in range(len(UNITS)))
    for some in every:
        assert read(OPENS, some[::-1]) == [whole[own] for own in some[::-1]]


def question(text=OPENS):
    return Question(
        text, PromptTemplate(), None, PrivacyConfig.create(agreement="only"), extractive=True
    )


def votes(units):
    found = sentence_votes(question(), read(OPENS, units), notes=False)(None)(0, (), 16)
    return [None if vote is None else vote.keys for vote in found]


def test_neighbours_differ_in_the_vote_of_one_unit():
    whole = votes(UNITS)
    assert whole == [("6:45",), None, ("6:45",), None, ("9:30",), None, None]
    for at in range(len(UNITS)):
        assert votes(UNITS[:at] + UNITS[at + 1 :]) == whole[:at] + whole[at + 1 :]


def test_what_was_released_before_is_named_by_extracts():
    proposal = Proposal((1,), (), (), OPENS, named="6:45")
    named = naming_of(question(), proposal, read(OPENS, UNITS))
    assert named is not None
    assert named(None).tolist() == [True, False, True, False, False, False, False]


@pytest.mark.parametrize(
    ("asked", "said", "reads"),
    [
        ("When does the pool open on weekdays?", "The pool opens on weekdays at 6:45.", True),
        ("When does the pool open on weekdays?", "The pool opens on Monday at 6:45.", True),
        (
            "When does the pool open on weekdays?",
            "When does the pool open on weekends at 9?",
            False,
        ),
        ("When does the pool open on weekdays?", "The pool does open on weekends at 9:30.", False),
        ("When does the pool open on Friday?", "Freitag the pool does open at 9:30.", True),
        ("When does the pool open on Friday?", "Samstag the pool does open at 9:30.", False),
        ("On which weekday is the pool closed?", "The pool is closed on Sunday.", True),
        ("And when does the pool open?", "The pool opens at 6:45.", False),
        ("When does the pool open?", "The dog barks when the cat does at 6:45.", False),
        (
            "When does the pool open?",
            "Pool cues, chalk, cloth and lamps came by cart at 6:45.",
            False,
        ),
        ("When does pool 4 open?", "The pool opens at 6:45.", False),
        ("When does pool 4 open?", "The pool 4 opens at 6:45.", True),
    ],
)
def test_what_is_of_something_else_is_not_read(asked, said, reads):
    assert read(asked, [(said,)]) == [(said.rstrip("."),) if reads else ()]


def test_words_of_another_language_are_no_place():
    where = answer_keys("Where do the members meet?")
    assert keys_of_extract("We meet in the old mill", where) == ("mill",)
    assert keys_of_extract("Wir treffen uns in der alten Mühle", where) == ("Mühle",)
    assert keys_of_extract("Nous nous retrouvons dans le vieux moulin", where) == ()


def test_words_of_one_unit_that_cannot_be_read_are_no_error():
    assert read(OPENS, [("\ud800",), UNITS[0]])[1] == ("The pool opens at 6:45",)


@pytest.mark.heavy
def test_public_documents_about_something_else_have_no_answer():
    asked = defaultdict(list)
    for item in rehearsal_items():
        if answer_keys(item.question).by_value and (item.right or not item.near):
            asked[item.question].append(item)
    told = far = 0
    for question, items in asked.items():
        found = extracts(question)([(item.document,) for item in items])
        for item, own in zip(items, found, strict=True):
            said = bool(own) and bool(answer_keys(question).of(own[0]))
            told += said and item.is_right(own[0])
            far += said and not item.right
    assert (told, far) == (18, 0)


VAN = "When does the bread van arrive?"
ARRIVES = (
    "The van with the bread arrives at 7:20.",
    "Bread: the van is there at twenty past seven in the morning.",
    "The bread van came at 7.20 as ever, and I was glad.",
    "Our van brings the bread at 7:20 am.",
)
NAMES = "Ada Bo Cleo Dov Elif Finn Gus Hana Ines Jon Kim Lea Max Nia Oz Pia"
NOTES = [
    Document(f"Dear {name}, {ARRIVES[at % 4]} Yours, Ito", unit=name)
    for at, name in enumerate(NAMES.split())
]


@pytest.mark.heavy
def test_by_default_the_packaged_model_tells_what_units_say(default_model, tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", epsilon=100, unit_epsilon=50)
        for own in ({}, {"ledger": ledger}):
            llm = PrivateContextLLM(default_model, epsilon=8, **own)
            plan = llm.plan(NOTES, Request.of("answer", question=VAN))
            found = llm.answer(VAN, NOTES)
            assert (found.text, found.supported, found.by) == ("7:20.", True, "agreement")
            assert found.epsilon == plan.epsilon
            assert llm.answer("When is the choir's concert?", NOTES).text == UNSUPPORTED
