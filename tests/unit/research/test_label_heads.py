"""Label heads in evaluations: one release, all queries, beside a regression on the same vectors."""

from __future__ import annotations

import json

import pytest

from dpicl_rag.accounting import Adjacency, Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_research import label_heads
from dpicl_research.label_heads import compare_heads, head_lines
from dpicl_research.tasks import Item, Task, Template
from tests.support.bucket_embedder import BucketEmbedder

TEXTS = {"sun": "warm bright day", "rain": "wet grey cloud"}
ITEMS = tuple(
    Item(f"{words} {number}", label, label)
    for number in range(60)
    for label, words in TEXTS.items()
)
TASK = Task("weather", Template("", "Text:", "Label:"), tuple(TEXTS), ITEMS[:80], ITEMS[80:])


def test_heads_and_regressions_learn_what_the_vectors_tell():
    found = compare_heads(TASK, [8.0], noises=2, queries=20, embedder=BucketEmbedder())
    lines = {(line.method, line.epsilon): line for line in found.lines}
    assert lines["label head", None].accuracy == lines["logistic regression", None].accuracy == 1
    assert lines["label head", 8.0].accuracy > 0.8
    assert lines["label head", 8.0].deviation is not None
    (table,) = found.tables()
    assert table.title == "weather: 80 examples, 20 queries, 2 noises, delta 1e-05"
    assert [len(row) for row in table.rows] == [3, 3, 3]
    assert json.loads(json.dumps(found.summary()))["lines"][0]["method"] == "label head"


class Settings:
    seeds, queries, experts = 2, 3, (4, 8)


class RunOf:
    settings = Settings()


def test_a_run_has_a_line_for_each_number_of_experts(tmp_path, monkeypatch):
    budget, sized = Budget(4.0, 1e-5), {"seeds": 2, "queries": 3}
    label_heads.score(TASK, tmp_path, budget=budget, **sized, embedder=BucketEmbedder())
    first = head_lines(tmp_path, RunOf(), budget)
    assert [line.experts for line in first] == [4, 8]
    assert {line.true_epsilon for line in first} == {4.0}
    assert all(line.method.endswith("once for all answers") and not line.note for line in first)
    monkeypatch.setattr(label_heads, "release_label_head", lambda *a, **b: pytest.fail("again"))
    label_heads.score(TASK, tmp_path, budget=budget, **sized, embedder=BucketEmbedder())
    assert head_lines(tmp_path, RunOf(), Budget(8.0, 1e-5))[0].accuracy is not None
    assert "run it again" in head_lines(tmp_path, RunOf(), Budget(3.0, 1e-5))[0].note
    replaced = Budget(4.0, 1e-5, Adjacency.REPLACE_ONE)
    assert "added or removed" in head_lines(tmp_path, RunOf(), replaced)[0].note


def test_a_task_whose_queries_bring_their_candidates_is_refused():
    with pytest.raises(ConfigurationError, match="no list of labels"):
        compare_heads(Task("films", TASK.template, (), ITEMS, ITEMS), [1.0])
