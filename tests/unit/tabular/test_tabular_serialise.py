"""Rows in words."""

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.tabular.schema import Category, Label, Schema, asked, examples, prompt, serialise_row
from tests.support.private_rows import BASE, SCHEMA


def test_words_come_from_the_schema():
    assert serialise_row(BASE[0], SCHEMA) == "20 years, a clerk, gain -5."
    odd = {"age": "1e9", "job": "{age} {gain}", "gain": None}
    assert serialise_row(odd, SCHEMA) == "100 years, other, gain -10."
    assert asked(BASE[1], SCHEMA) == "45 years, smith, gain 7. Rich?"


def test_without_a_text_names_stand_before_values():
    plain = Schema((Category("job", ("clerk",)), Category("town", ("Ulm",))), SCHEMA.label)
    assert serialise_row({"job": "clerk", "town": "Bonn"}, plain) == "job clerk, town other."


def test_a_prompt_is_the_paper_s():
    assert prompt(BASE[2], BASE[:2], SCHEMA) == (
        "20 years, a clerk, gain -5. Rich? Answer: No\n"
        "45 years, smith, gain 7. Rich? Answer: Yes\n"
        "70 years, other, gain 40. Rich? Answer:"
    )
    with pytest.raises(ConfigurationError, match="labels No, Yes"):
        prompt(BASE[0], [BASE[3]], SCHEMA)


def test_examples_fit_a_prompt_template():
    (shown,) = examples(BASE[1:2], SCHEMA)
    assert (shown.document, shown.question, shown.answer) == (
        *("45 years, smith, gain 7.", "Rich?", "Yes"),
    )
    assert Label("x", ("a", "b")).place("a") == 0


PACKAGED_TEXT = {
    "adult": (
        "A person in the 1994 US census: 42 years, male, Bachelor's degree, private sector, "
        "executive, 40 hours a week, gain 0, loss 0, United-States, White, married, husband."
    ),
    "car": "A car: price low, upkeep medium, 3 doors, 4 persons, big boot, safety high.",
}
ROWS = {
    "adult": {
        "age": 42,
        "sex": "Male",
        "education": "Bachelors",
        "workclass": "Private",
        "occupation": "Exec-managerial",
        "hours_per_week": 40,
        "capital_gain": 0,
        "capital_loss": 0,
        "native_country": "United-States",
        "race": "White",
        "marital_status": "Married-civ-spouse",
        "relationship": "Husband",
    },
    "car": {
        "buying": "low",
        "maint": "med",
        "doors": "3",
        "persons": "4",
        "lug_boot": "big",
        "safety": "high",
    },
}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_packaged_wording(name):
    assert serialise_row(ROWS[name], Schema.read(name)) == PACKAGED_TEXT[name]
