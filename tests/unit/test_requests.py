"""A request: its fields are those of its kind."""

from __future__ import annotations

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.requests import FIELDS, AnswerFields, Request

GIVEN = {
    "question": "q?",
    "turns": (("user", "Hello."),),
    "system": "Be brief.",
    "max_tokens": 3,
    "stop": (".",),
    "labels": ("a", "b"),
    "method": "poe",
    "column": "status",
    "most": 2,
    "by": "vectors",
    "vocabulary": ("word",),
    "votes": 2,
    "threshold": 0.5,
    "sample": 0.5,
    "anyway": True,
    "fresh": True,
}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_field_of_another_kind_is_refused_in_one_line(kind):
    assert set(GIVEN) == set(Request.model_fields) - {"kind"}
    Request.of(kind, **{name: GIVEN[name] for name in FIELDS[kind]})
    for name in GIVEN.keys() - FIELDS[kind]:
        with pytest.raises(ConfigurationError, match=f"^{name}: the kind {kind} has none; "):
            Request.of(kind, **{name: GIVEN[name]})


def test_keywords_of_an_answer_are_its_fields():
    assert set(AnswerFields.__annotations__) == set(FIELDS["answer"]) - {"question"}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_default_is_no_field_that_was_asked_for(kind):
    every = {name: field.default for name, field in Request.model_fields.items() if name != "kind"}
    Request.of(kind, **every)
