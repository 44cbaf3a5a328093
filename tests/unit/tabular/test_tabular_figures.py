"""Naive Bayes on released tables of real data, beside the figures that were measured before."""

import csv
import gzip
from statistics import fmean

import numpy as np
import pytest

from dpicl_rag.tabular.local_privacy import bits_from_reports, local_report
from dpicl_rag.tabular.noisy_tables import release_tables
from dpicl_rag.tabular.schema import Schema
from dpicl_research.table_releases import noiseless

# Percent without noise, and with pure epsilon 1; the data sets of at most 1,400 rows and jungle.
MEASURED = {"blood": (80, 80), "car": (94, 94), "diabetes": (77, 76), "heart": (86, 86)}


def read(folder, name, part):
    path = folder / f"tab_{name}_{part}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted(MEASURED))
def test_what_can_be_learned_survives(name, data_folder):
    schema = Schema.read(name)
    private, test = (read(data_folder, name, part) for part in ("train", "test"))
    right = [schema.label.values[schema.label.place(row["label"])] for row in test]

    def percent(made):
        bayes = made.naive_bayes()
        found = zip(test, right, strict=True)
        return 100 * fmean(bayes.predict(row) == answer for row, answer in found)

    exact, noisy = MEASURED[name]
    assert percent(noiseless(private, schema)) == pytest.approx(exact, abs=2)
    released = fmean(percent(release_tables(private, schema, 1.0)) for _ in range(40))
    assert released == pytest.approx(noisy, abs=2)


@pytest.mark.heavy
def test_reconstruction_is_further_from_the_truth_than_the_reports_are(data_folder):
    """What LDP-TabICL's reconstruction does to 13 bits of Adult; run with -s for the figures."""
    schema = Schema.read("adult")
    rows = read(data_folder, "adult", "train")

    def distance(one, other):
        return float(np.abs(one - other).sum()) / 2

    def shares(bits):
        cells = np.zeros((2,) * (len(schema.columns) + 1))
        for row in bits:
            cells[row] += 1
        return cells / cells.sum()

    def own(row):
        encoded = schema.encode(row)
        columns = zip(schema.columns, encoded.places, strict=True)
        return (*(column.bit(place) for column, place in columns), encoded.label)

    true = shares(map(own, rows))
    for epsilon in (1.0, 10.0, 25.0):
        sent = [local_report(row, schema, epsilon, method="bits") for row in rows]
        made = bits_from_reports(sent, schema, epsilon).shares
        raw, back = (distance(true, found) for found in (shares(one.bits for one in sent), made))
        yes = float(made[..., 1].sum())
        print(f"epsilon {epsilon:g}: reports {raw:.2f} reconstructed {back:.2f} yes {yes:.2f}")  # noqa: T201
        assert back > raw
