"""Groups of Table VII and bits of LDP-TabICL, against the published code's own conditions."""

from itertools import product

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.tabular.aggregates import AggregatesPlan, release_aggregates
from dpicl_rag.tabular.schema import PACKAGED
from dpicl_research.published_bits import (
    bit_counts,
    bits_table,
    published_schema,
    published_share,
    true_epsilon,
)
from dpicl_research.published_groups import CODE_GROUPS, GROUPS, published_groups
from dpicl_research.published_sampling import (
    AMPLIFICATION,
    EPSILONS,
    fresh_table,
    noise_over_signal,
    published_rate,
    sampling_table,
    sizes_table,
)
from dpicl_research.table_tasks import load_tables

# Table VII. Each is the same for all rows of a group, and the two together differ between groups.
PUBLISHED = {
    "adult": (lambda row: row["sex"] == "Male", lambda row: row["race"] == "White"),
    "bank": (lambda row: row["marital"] == "married", lambda row: row["contact"] == "cellular"),
    "blood": (lambda row: float(row["frequency"]) <= 5, lambda row: float(row["recency"]) <= 10),
    "calhousing": (
        lambda row: float(row["housing_median_age"]) <= 25,
        lambda row: float(row["population"]) <= 2000,
    ),
    "car": (lambda row: row["buying"] in ("low", "med"), lambda row: row["doors"] in ("2", "3")),
    "diabetes": (lambda row: float(row["Pregnancies"]) <= 4, lambda row: float(row["Age"]) <= 33),
    "heart": (lambda row: row["Sex"] == "F", lambda row: row["ExerciseAngina"] == "N"),
    "jungle": (
        lambda row: float(row["white_piece0_strength"]) <= 4,
        lambda row: float(row["black_piece0_strength"]) <= 4,
    ),
}


OF_THE_CODE = (lambda row: row["poutcome"] == "success", lambda row: float(row["age"]) <= 50)
"""Bank's conditions in the published code."""


@pytest.mark.parametrize(
    ("name", "groups", "conditions"),
    [*((name, GROUPS, PUBLISHED[name]) for name in PACKAGED), ("bank", CODE_GROUPS, OF_THE_CODE)],
)
def test_rows_are_in_the_paper_s_groups(name, groups, conditions, data_folder, monkeypatch):
    monkeypatch.setenv("DPICL_RAG_DATA", str(data_folder))
    (task,) = load_tables([name])
    schema = published_groups(name, groups)
    plan = AggregatesPlan(schema, (schema.label.name, *schema.group_by), 1.0)
    assert len(plan.keys) == 8
    seen: dict = {}
    for row in [*task.train, *task.test]:
        encoded = schema.encode(row)
        condition = (encoded.label, *(one(row) for one in conditions))
        seen.setdefault(plan.key_of(encoded), set()).add(condition)
    assert all(len(those) == 1 for those in seen.values())
    assert len(set().union(*seen.values())) == len(seen) >= 7


def test_a_row_of_each_group_is_released():
    schema = published_groups("car")
    rows = [
        {"buying": buying, "doors": doors, "label": label}
        for buying, doors, label in product(("med", "vhigh"), ("3", "5more"), ("0", "3"))
    ]
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(1)
    names = ("label", *schema.group_by)
    found = release_aggregates(rows, schema, 1e5, names, randomness=coins)
    told = {(row["label"], row["buying"], row["doors"]) for row in found.rows}
    answers = {"0": "No", "3": "Yes"}
    assert told == {(answers[row["label"]], row["buying"], row["doors"]) for row in rows}


def test_other_data_sets_have_no_published_groups():
    assert set(GROUPS) == set(PACKAGED)
    with pytest.raises(ConfigurationError, match="'people' is none of them"):
        published_groups("people")


def test_bits_are_counted_as_in_the_paper():
    """Run with -s for the table."""
    counts = {count.name: count for count in bit_counts()}
    published = {name: count.published.number for name, count in counts.items()}
    assert published == {
        **{"adult": 13, "bank": 10, "blood": 5, "calhousing": 9},
        **{"car": 12, "diabetes": 9, "heart": 12, "jungle": 7},
    }
    flips = {name: count.published.flips for name, count in counts.items()}
    assert flips == {**published, "adult": 10, "car": 9}
    assert [counts[name].ours.number for name in ("adult", "bank", "car")] == [13, 17, 7]
    assert true_epsilon(counts["car"].published, 50) == 37.5
    assert counts["car"].published.share(1.0) > published_share(counts["car"].published, 1.0)
    print(bits_table().markdown())  # noqa: T201


def test_values_are_merged_as_in_the_paper():
    adult = published_schema("adult")
    said = {"Doctorate": "college", "Some-college": "high school", "7th-8th": "other"}
    education = adult.column("education")
    assert {value: education.names[education.place(value)] for value in said} == said
    married = adult.column("marital_status")
    assert [married.bit(married.place(v)) for v in ("Married-AF-spouse", "Widowed")] == [1, 0]
    car = published_schema("car")
    assert car.column("buying").place("vhigh") == car.column("buying").place("high")
    assert "doors" not in [column.name for column in car.columns]


def test_samples_cost_noise_and_never_pay():
    assert published_rate("adult") == 0.1
    assert published_rate("people") is None
    assert [noise_over_signal(one, 1.0) for one in EPSILONS] == [1.0] * 5
    assert all(noise_over_signal(one, rate) > 1 for one in EPSILONS for rate in (0.1, 0.5))
    assert all(one.rate_of_code < one.rate for one in AMPLIFICATION)
    for table in (sampling_table(), sizes_table(), fresh_table()):
        assert {len(row) for row in table.rows} == {len(table.columns)}
    assert "47.697 / 47.648 (printed 47.370)" in sampling_table().markdown()
    assert fresh_table().rows[0][:3] == ("adult", "30162", "1506")
