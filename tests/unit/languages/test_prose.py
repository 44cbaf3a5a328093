"""Prose over released numbers has no number that was not released, and every one that was."""

import re
from dataclasses import asdict, replace

import pytest

from dpicl_rag.languages.prose import prose_for
from dpicl_rag.results import Estimate
from dpicl_rag.surveys.survey_results import (
    PrivateCount,
    PrivateSurvey,
    PrivateTally,
    SurveyedTheme,
)
from tests.support.readings import SEEING

QUESTIONS = {
    "en": "What do the writers want?",
    "de": "Was wollen die, die schreiben?",
    "fr": "Que veulent les gens qui écrivent ?",
    "es": "¿Qué quieren los que escriben?",
    "it": "Che cosa vogliono quelli che scrivono?",
}
LANGUAGES = pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
TOTAL, OTHERS = Estimate(12345, 11111, 13579), Estimate(17, 0, 39)
COUNTS = {"lift": Estimate(4321, 4200, 4444), "bill": Estimate(1809, 1700, 1918)}


def numbers(text):
    """Numbers of a text, whatever stands between thousands."""
    return sorted(int(re.sub(r"\D", "", one)) for one in re.findall(r"\d+(?:[.,\s]\d{3})*", text))


def of(*counts):
    return [number for count in counts for number in asdict(count).values()]


@LANGUAGES
def test_a_count_is_told_with_its_own_numbers(question):
    found = PrivateCount(question, COUNTS["lift"], 1.0, 1e-5, 0.02)
    assert numbers(found.text) == sorted(of(COUNTS["lift"]))
    corrected = replace(found, reading=SEEING.clear, complete=False)
    rates = set(numbers(corrected.text)) - set(of(COUNTS["lift"]))
    assert {90, 95} <= rates <= {90, 95, 100}


@LANGUAGES
def test_each_number_of_a_tally_stands_at_its_label(question):
    found = PrivateTally(question, COUNTS, TOTAL, 1.0, 1e-5, 0.02)
    assert numbers(found.text) == sorted([*of(*COUNTS.values()), TOTAL.units])
    first, second = found.text.split(";")
    assert ("lift" in first, "bill" in second) == (True, True)
    assert numbers(second) == sorted(of(COUNTS["bill"]))


@LANGUAGES
def test_a_survey_is_told_with_its_own_numbers(question):
    themes = tuple(SurveyedTheme(name, {name: own}, own) for name, own in COUNTS.items())
    found = PrivateSurvey(question, themes, OTHERS, TOTAL, 12, 1.0, 1e-5, 0.02)
    whole = [TOTAL.units, *of(*COUNTS.values(), OTHERS), 12]
    assert numbers(found.text) == sorted(whole)
    nothing = replace(found, themes=())
    assert numbers(nothing.text) == sorted([*of(OTHERS), TOTAL.units, 12])


def test_every_language_has_sentences_of_its_own():
    said = {prose_for(question).yes(TOTAL) for question in QUESTIONS.values()}
    assert len(said) == len(QUESTIONS)
    keys = {frozenset(prose_for(question)._sentences) for question in QUESTIONS.values()}
    assert len(keys) == 1
