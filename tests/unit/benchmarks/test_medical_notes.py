"""The notes of a ward: none has the words of a question, enough tell, and answers are judged."""

from __future__ import annotations

import re

import pytest

from benchmarks.asked_corpus import Question
from benchmarks.medical_notes import made_notes
from benchmarks.medical_notes.made_notes import DATA, TELLING, WORDINGS, make_notes

ASKED = re.compile("disease|diagnos|treat|symptom", re.IGNORECASE)
needs_records = pytest.mark.skipif(
    not (DATA / "medical_synth_dev.jsonl.gz").exists(), reason="DPICL_RAG_DATA has no records"
)


def test_ten_wordings_without_the_words_of_the_questions():
    assert len(set(WORDINGS)) == 10
    for wording in WORDINGS:
        assert not ASKED.search(re.sub(r"\{\w+\}", "", wording))
        assert all(f"{{{field}}}" in wording for field in ("patient", "disease", "signs", "given"))


@needs_records
@pytest.mark.parametrize("seed", [0, 1])
def test_twenty_questions_that_enough_notes_tell(seed):
    made = make_notes(seed)
    kinds = [question.kind for question in made.questions]
    assert kinds == ["treatment", "diagnosis"] * 10
    assert all(made.telling[question.fact] >= TELLING for question in made.questions)
    assert make_notes(seed) == made
    assert len({document.unit for document in made.documents}) == len(made.documents)


@needs_records
def test_few_notes_of_what_is_asked_and_as_many_of_others():
    made = make_notes(notes=16)
    asked = {question.fact for question in made.questions}
    assert {made.telling[name] for name in asked} == {16}
    assert max(made.telling.values()) == 32
    for name in asked:
        own = re.compile(rf"\b{re.escape(name)}\b(?! Syndrome| Fever)")
        assert sum(bool(own.search(document.text)) for document in made.documents) == 16


@needs_records
def test_right_answers_are_those_of_the_disease_alone():
    made = make_notes()
    by_name = {illness.name: illness for illness in made_notes._illnesses()}
    for question in made.questions:
        illness = by_name[question.fact]
        told, other = (illness.name, "Gigglepox"), ("Blergorraxitis", illness.name)
        if question.kind == "treatment":
            told, other = (illness.given, "Snortacillin"), ("Flumplenaxolol", illness.given)
        assert question.is_right(f"It is {told[0]}.")
        assert not question.is_right("It is rest.")
        for wrong in {told[1], other[0]} - {told[0]}:
            assert not question.is_right(f"It is {wrong}.")
            assert not question.is_right(f"It is {told[0]} or {wrong}.")


def test_a_longer_name_is_another_one():
    names = ["Snurflesinus", "Snurflesinus Syndrome", "Flumplenook", "Flumplenook Splintonix Shot"]
    for right in names:
        for other in names:
            right_ones = (made_notes._said(right, names),)
            wrong_ones = tuple(made_notes._others(right, names))
            judged = Question("?", "treatment", right=right_ones, wrong=wrong_ones)
            assert judged.is_right(f"It is {other}.") is (other == right)
