"""Worked examples, by the question's kind, and how a kind is told."""

import pytest

from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.languages import (
    SILENT,
    QuestionKind,
    language_of,
    languages,
    worked_examples,
)

LANGUAGES = pytest.mark.parametrize("language", languages(), ids=lambda one: one.code)


@LANGUAGES
@pytest.mark.parametrize("kind", QuestionKind)
def test_each_kind_has_a_document_that_tells_nothing(language, kind):
    shown = worked_examples(language.code, kind)
    assert [one.answer for one in shown].count(SILENT) == 1
    assert {language_of(one.question) for one in shown} == {language}


@LANGUAGES
def test_yes_or_no_is_shown_by_nothing_else(language):
    """With another kind before it a model of 1.5B was silent where documents say no."""
    first, *rest = worked_examples(language.code, QuestionKind.YES_OR_NO)
    assert first.answer == SILENT
    said = [answer_keys(one.question).of(one.answer) for one in rest]
    assert () not in said
    assert len(set(said)) == 2


@pytest.mark.parametrize(
    ("question", "is_one"),
    [
        ("La panetteria è aperta?", True),
        ("L'ascensore è rotto?", True),
        ("Il codice del wifi è?", False),
        ("Il corso è a che ora?", False),
        ("La boulangerie est ouverte ?", True),
        ("Le cours est quand ?", False),
        ("Les cours du samedi sont lesquels ?", False),
        ("¿La panadería está abierta?", True),
        ("¿La clave del wifi está dónde?", False),
    ],
)
def test_who_asks_in_the_order_of_a_statement_asks_for_yes_or_no(question, is_one):
    """As Italian does, and French and Spanish may."""
    assert (language_of(question).kind(question) is QuestionKind.YES_OR_NO) is is_one
