"""Local reports: the chances of every report under any two rows, and planted faults."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import RandomisedResponse
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.tabular import local_privacy
from dpicl_rag.tabular.local_privacy import (
    Report,
    RowBits,
    bits_from_reports,
    local_report,
    tables_from_reports,
)
from dpicl_rag.tabular.schema import Category, Label, Number, Schema
from dpicl_research.published_bits import published_share, true_epsilon
from tests.support.private_rows import BASE, EVERY_ROW, SCHEMA
from tests.support.scored_units import distribution
from tests.support.tried_coins import Tried


def chances(row, epsilon, method, monkeypatch, make=local_report):
    """Exact distribution of a person's report. The response itself is tested in its own room."""

    def respond(response, value, randomness):
        options = [
            (other, response.kept if other == value else response.other)
            for other in range(response.size)
        ]
        return randomness.choose(options)

    monkeypatch.setattr(RandomisedResponse, "draw", respond)

    def run(choose):
        return make(row, SCHEMA, epsilon, method=method, randomness=Tried(choose))

    return distribution(run)


def loss(epsilon, method, monkeypatch, rows=EVERY_ROW, make=local_report):
    """Largest log ratio of a report's chances under any two rows."""
    found = [chances(row, epsilon, method, monkeypatch, make) for row in rows]
    every = set().union(*found)
    if any(set(one) != every for one in found):
        return math.inf
    return max(
        math.log(max(one[sent] for one in found) / min(one[sent] for one in found))
        for sent in every
    )


DIFFERENT = [EVERY_ROW[at] for at in range(0, len(EVERY_ROW), 3)] + list(BASE)


@pytest.mark.parametrize("method", local_privacy.METHODS)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_any_two_rows_differ_by_epsilon_and_no_less(method, epsilon, monkeypatch):
    found = loss(epsilon, method, monkeypatch, DIFFERENT)
    assert found == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("method", local_privacy.METHODS)
def test_chances_add_up(method, monkeypatch):
    assert math.fsum(chances(BASE[3], 1.0, method, monkeypatch).values()) == pytest.approx(1)


PRICES = Schema(
    (Category("price", ("low", "med", "high")), Category("doors", ("2", "3"))),
    Label("ok", ("No", "Yes")),
)
PRICED = [
    {"price": price, "doors": doors, "ok": ok}
    for price, doors, ok in product(("low", "high", "?"), ("2", "3"), ("No", "Yes"))
]


def priced(row, _schema, epsilon, **given):
    return local_report(row, PRICES, epsilon, **given)


def test_one_hot_bits_cost_epsilon_and_no_less(monkeypatch):
    assert loss(3.0, "one-hot", monkeypatch, PRICED, priced) == pytest.approx(3.0, rel=1e-9)


def test_the_paper_s_share_of_one_hot_bits_costs_less_than_it_claims(monkeypatch):
    layout = RowBits(PRICES, one_hot=True)
    assert (layout.number, layout.flips) == (5, 4)
    monkeypatch.setattr(RowBits, "share", published_share)
    found = loss(3.0, "one-hot", monkeypatch, PRICED, priced)
    assert found == pytest.approx(float(true_epsilon(layout, 3.0)), rel=1e-9) == pytest.approx(2.4)


# Planted faults.


def test_a_share_for_each_column_of_one_hot_bits_is_found(monkeypatch):
    monkeypatch.setattr(RowBits, "flips", property(lambda bits: len(bits.schema.columns) + 1))
    found = loss(3.0, "one-hot", monkeypatch, PRICED, priced)
    assert found == pytest.approx(4.0)  # where 3 is charged


def test_a_column_charged_once_that_changes_two_bits_is_found(monkeypatch):
    """One-hot bits, each with a share as if a column were one bit: a change flips two."""

    def one_hot(row, schema, epsilon, *, method, randomness):
        encoded = schema.encode(row)
        response = RandomisedResponse(2, Fraction(epsilon) / len(schema.columns))
        bits = [
            response.draw(int(place == at), randomness)
            for column, place in zip(schema.columns[:2], encoded.places, strict=False)
            for at in range(column.size)
        ]
        return tuple(bits)

    rows = [{"age": age, "job": job} for age, job in product((20, 45), ("clerk", "smith"))]
    found = loss(3.0, "bits", monkeypatch, rows, one_hot)
    # Two columns of three are sent, each at one share; both change, by two bits each.
    assert found == pytest.approx(4.0)  # where two shares of 1 are charged


def test_every_bit_at_the_whole_epsilon_is_found(monkeypatch):
    monkeypatch.setattr(RowBits, "flips", 1)
    assert loss(1.0, "bits", monkeypatch, DIFFERENT) > 3.9


def test_a_domain_from_the_own_row_is_found(monkeypatch):
    def own_domain(row, schema, epsilon, *, method, randomness):
        known = str(row.get("job")) in ("clerk", "smith")
        small = Schema(
            (Category("job", ("clerk", "smith", *(() if known else ("spy",)))),), schema.label
        )
        return local_report(row, small, epsilon, method=method, randomness=randomness)

    assert loss(1.0, "one-attribute", monkeypatch, BASE, own_domain) == math.inf


def test_a_column_that_the_row_chooses_is_found(monkeypatch):
    def most_telling(row, schema, epsilon, *, method, randomness):
        at = 0 if row.get("gain") == 7 else 1
        narrow = Schema(schema.columns[at : at + 1], schema.label)
        return local_report(row, narrow, epsilon, method=method, randomness=randomness)

    assert loss(1.0, "one-attribute", monkeypatch, BASE, most_telling) == math.inf


# What the aggregator does with reports.


def people(number, method, epsilon, schema=SCHEMA):
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(5)
    rows = [BASE[at % 3] for at in range(number)]
    return [local_report(row, schema, epsilon, method=method, randomness=coins) for row in rows]


def test_tables_are_estimated_from_one_attribute():
    number = 6000
    found = tables_from_reports(people(number, "one-attribute", 4.0), SCHEMA, 4.0)
    expected = [
        [[2000, 0, 0], [0, 2000, 2000]],
        [[2000, 0, 0], [0, 2000, 2000]],
        [[2000, 0], [0, 4000]],
    ]
    for table, right in zip(found.arrays, expected, strict=True):
        # A third of the people drew the column.
        assert np.abs(3 * table - right).max() < 350
    assert found.epsilon == 4.0
    assert [found.naive_bayes().predict(row) for row in BASE[:3]] == ["No", "Yes", "Yes"]
    assert found.rows(2)[0]["rich"] in ("No", "Yes")


def test_the_joint_distribution_is_estimated_from_bits():
    found = bits_from_reports(people(6000, "bits", 20.0), SCHEMA, 20.0)
    assert found.shares.sum() == pytest.approx(1)
    # young clerk, low gain, No: 0 0 0 0; middle-aged smith, gain, Yes: 0 1 1 1; old other: 1 1 1 1
    for cell in ((0, 0, 0, 0), (0, 1, 1, 1), (1, 1, 1, 1)):
        assert found.shares[cell] == pytest.approx(1 / 3, abs=0.03)
    with pytest.warns(NotPrivateWarning):
        drawn = found.rows(600, SeededRandomness(1))
    assert Counter(row["rich"] for row in drawn)["No"] == pytest.approx(200, abs=50)
    assert {row["job"] for row in drawn if row["rich"] == "No"} <= {"clerk", "smith"}


def test_without_reports_nothing_is_known():
    assert tables_from_reports([], SCHEMA, 1.0).naive_bayes().predict(BASE[0]) in ("No", "Yes")
    assert len(bits_from_reports([], SCHEMA, 1.0).rows(2)) == 2


def test_a_report_is_sent_and_read_back():
    for method in local_privacy.METHODS:
        sent = local_report(BASE[1], SCHEMA, 1.0, method=method)
        assert Report.read(sent.to_json()) == sent
        text = str(sent.to_json())
        assert ("column" in text) == (method == "one-attribute")
    with pytest.raises(ConfigurationError, match="no report"):
        Report.read({"age": 45})
    with pytest.raises(ConfigurationError, match="no report"):
        Report.read([1])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": 2.0}, "report 1 is of another epsilon"),
        ({"schema": "0"}, "another schema"),
        ({"method": "bits", "bits": (0, 0, 0, 0)}, "another method"),
        ({"column": "wage"}, "not in the schema"),
        ({"value": "old"}, "not in the schema"),
    ],
)
def test_reports_of_another_kind_are_refused(change, said):
    (sent,) = people(1, "one-attribute", 1.0)
    with pytest.raises(ConfigurationError, match=said):
        tables_from_reports([Report.read({**sent.to_json(), **change})], SCHEMA, 1.0)


def test_settings_are_checked():
    with pytest.raises(ConfigurationError, match="epsilon"):
        local_report(BASE[0], SCHEMA, 0.0)
    with pytest.raises(ConfigurationError, match="one-attribute, bits, one-hot"):
        local_report(BASE[0], SCHEMA, 1.0, method="laplace")
    wide = Schema(tuple(Number(f"n{at}", 0, 2, (1,)) for at in range(20)), SCHEMA.label)
    with pytest.raises(ConfigurationError, match="at most 19 columns"):
        local_report({}, wide, 1.0, method="bits")
    three = Schema(SCHEMA.columns, Label("rich", ("No", "Yes", "Both")))
    with pytest.raises(ConfigurationError, match="two answers"):
        local_report({}, three, 1.0, method="bits")
    (sent,) = people(1, "bits", 1.0)
    with pytest.raises(ConfigurationError, match="give 4 bits"):
        bits_from_reports([Report.read({**sent.to_json(), "bits": (0, 1)})], SCHEMA, 1.0)
