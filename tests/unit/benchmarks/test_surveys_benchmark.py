"""The benchmark of surveys: what is counted as named, and how true shares are."""

import json
import sys
from collections import Counter

import numpy as np
import pytest

from benchmarks import surveys
from benchmarks.made_up_complaints import PROBLEMS, complaints
from dpicl_rag.retrieval.unit_vectors import rounded
from dpicl_rag.surveys.vocabulary import Vocabulary
from tests.support.bucket_embedder import BucketEmbedder

AXES = rounded(np.eye(3, dtype=np.float32))


def records(counts):
    classes = np.repeat(np.arange(len(counts)), counts)
    return surveys.Records("made up", AXES[classes], classes, len(counts))


def test_a_theme_belongs_to_the_class_of_most_of_its_units():
    of = records([50, 30, 20])
    found = surveys.outcome(of, 1.0, "x", AXES[:2], [50.0, 30.0], 0.5)
    assert (found.named, found.themes, found.purity) == (2, 2, 1.0)
    # The third class is told as of none.
    assert found.variation == pytest.approx(0.2)
    nothing = surveys.outcome(of, 1.0, "x", AXES[:0], [], 0.5)
    assert (nothing.named, nothing.variation) == (0, 1.0)
    assert surveys.outcome(of, 1.0, "x", AXES, [50.0, 30.0, 20.0], 0.5).variation == 0.0


def test_a_survey_and_its_rival_find_classes_that_lie_apart():
    of = records([200, 200, 200])
    words = Vocabulary(("a", "b", "c", "d"), rounded(np.vstack([np.eye(3), np.ones((1, 3))])))
    for noise in (True, False):
        found = surveys.survey(of, 4.0, words, noise=noise)
        assert (found.named, found.purity) == (3, 1.0)
        assert found.variation < 0.05
    assert surveys.private_k_means(of, 8.0, 1).named == 3


def test_the_error_of_a_tally_is_that_of_the_worst_share():
    assert surveys.tally(records([500, 300, 200]), AXES, 4.0) < 0.02
    turned = AXES[[1, 0, 2]]  # two names are confused
    assert surveys.tally(records([500, 300, 200]), turned, 4.0) == pytest.approx(0.2, abs=0.02)


def test_it_writes_a_table_and_a_plot(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(surveys, "SentenceTransformerEmbedder", BucketEmbedder)
    monkeypatch.setattr(surveys, "records", lambda name, units, _: records([units, units, units]))
    monkeypatch.setattr(surveys, "tally", lambda *_: 0.01)
    monkeypatch.setattr(
        surveys.Vocabulary,
        "embedded",
        staticmethod(lambda *_: Vocabulary(("a", "b", "c", "d"), np.tile(AXES[:1], (4, 1)))),
    )
    given = ["surveys", "--tasks", "made", "--units", "30", "--seeds", "2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", given)
    surveys.main()
    lines = (tmp_path / "outcomes.jsonl").read_text().splitlines()
    assert {json.loads(line)["by"] for line in lines} == {
        "survey",
        "survey without noise",
        "private k-means",
    }
    assert len(lines) == 2 * 3 * (1 + 2 * 2)
    assert (tmp_path / "surveys.png").stat().st_size > 1000
    assert "purity" in capsys.readouterr().out


def test_the_made_up_mailbox_has_the_shares_it_says():
    threads = complaints(2000)
    assert len(threads) == 2000
    counts = Counter(name for _, name in threads)
    assert {name: counts[name] / 2000 for name in PROBLEMS} == {
        name: share for name, (share, _) in PROBLEMS.items()
    }
    assert len({text for text, _ in threads}) > 1800
    assert complaints(50) == complaints(50)
