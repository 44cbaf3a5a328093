"""Vectors that another framework keeps in memory."""

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.retrieval.stored_record import NO_UNIT, NO_VECTOR, OTHER_LENGTH, Defect, StoredRecord
from dpicl_rag.stores.cached_vectors import CachedVectors, InMemoryVectors
from tests.support.scored_units import OneVector
from tests.support.snapshot import Snapshot

ROWS = [
    (StoredRecord("1", "near", "secret text"), [0.9, 0.1]),
    (StoredRecord("2", "far", "text"), [0.1, 0.9]),
]


def test_it_is_searched_exactly_and_read_anew_each_time() -> None:
    rows = list(ROWS)
    retriever = ThresholdRetriever(InMemoryVectors(OneVector([1, 0]), lambda: rows), 0.5)
    assert [document.unit for document in retriever.retrieve("q")] == ["near"]
    rows.append((StoredRecord("3", "new", "text"), [2.0, 0.0]))
    assert {document.unit for document in retriever.retrieve("q")} == {"near", "new"}
    rows.clear()
    assert retriever.retrieve("q") == []


def test_it_finds_what_the_plain_scan_finds() -> None:
    for seed in range(50):
        generator = np.random.default_rng(seed)
        vectors = generator.integers(-1, 2, size=(seed, 3)).astype(float)  # many ties
        units = generator.integers(0, 1 + seed // 2, size=seed)
        records = [StoredRecord(f"id {n}", f"unit {unit}", f"{n}") for n, unit in enumerate(units)]
        rows = list(zip(records, vectors.tolist(), strict=True))
        source = InMemoryVectors(OneVector([1, 0, 0]), lambda rows=rows: rows)
        question = generator.normal(size=3)
        for least, most in itertools.product((-1.0, 0.0, 0.5), (None, 1, 3)):
            plain = Snapshot(records, vectors.reshape(-1, 3)).scan(question, least, most)
            near = source.scan(question, least=least, most=most)
            scores = dict(zip(near.units, near.scores.tolist(), strict=True))
            places = [near.units.index(unit) for unit in plain.units]
            assert [scores[unit] for unit in plain.units] == plain.scores.tolist()
            assert most is not None or near.units == plain.units
            assert near.passages(places, 2) == plain.passages(range(len(places)), 2)


def test_it_has_no_filter() -> None:
    vectors = InMemoryVectors(OneVector([1, 0]), lambda: ROWS)
    with pytest.raises(ConfigurationError, match="where needs a Chroma collection"):
        vectors.scan([1, 0], where={"owner": "ann"})


@pytest.mark.parametrize("vector", [[1.0], [1.0, 0, 0], [], 1.0, [[1.0, 0]], ["a", 1], [None, {}]])
def test_a_vector_that_cannot_be_compared_scores_nothing_and_stops_nothing(vector: Any) -> None:
    rows = [*ROWS, (StoredRecord("3", "odd", "text"), vector)]
    source = InMemoryVectors(OneVector([1, 0]), lambda: rows)
    found = [document.unit for document in ThresholdRetriever(source, 0.001).retrieve("q")]
    assert sorted(found) == ["far", "near"]
    assert sorted(source.scan([1, 0]).scores)[0] == 0
    assert source.check() == [Defect("3", OTHER_LENGTH)]


def test_a_record_that_is_none_is_left_out() -> None:
    rows = [
        *ROWS,
        (Defect("3", NO_UNIT), [1.0, 0.0]),
        (StoredRecord("4", "zero", "text"), [0.0, 0.0]),
    ]
    rows.append((StoredRecord("5", "nan", "text"), [float("nan"), 1.0]))
    source = InMemoryVectors(OneVector([1, 0]), lambda: rows)
    assert sorted(source.scan([1, 0]).units) == ["far", "nan", "near", "zero"]
    assert source.check() == [Defect("3", NO_UNIT), Defect("4", NO_VECTOR), Defect("5", NO_VECTOR)]


def test_it_shows_nothing() -> None:
    assert repr(InMemoryVectors(OneVector([1, 0]), lambda: ROWS)) == "InMemoryVectors(<private>)"


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from dpicl_rag.stores.cached_vectors import CachedVectors
Path.replace = lambda *_: os._exit(9)
CachedVectors(Path(sys.argv[1]), "mail").write("1", [(["id"], ["ida@x.example"], np.ones((1, 4)))])
"""


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == 9
    left = {one.suffix for one in tmp_path.iterdir()}
    assert left == {".vectors", ".part"}  # with the names of units
    CachedVectors(tmp_path, "mail").write("2", [])
    assert sorted(one.suffix for one in tmp_path.iterdir()) == [".rows", ".vectors"]
    assert not any(b"ida@" in one.read_bytes() for one in tmp_path.iterdir())
