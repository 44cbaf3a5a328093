"""The benchmark of tables: what peers are given follows from public bounds."""

import json
import sys

import numpy as np

from benchmarks import tabular
from dpicl_research import private_baselines
from dpicl_research.table_tasks import TableTask
from tests.support.private_rows import BASE, SCHEMA

TASK = TableTask("people", SCHEMA, BASE[:3] * 10, BASE[:3])


def test_peers_get_numbers_within_public_bounds():
    odd = TableTask("odd", SCHEMA, [{"age": 1e9, "job": "spy", "rich": "1"}], BASE[:3])
    codes, _ = private_baselines.matrices(odd, one_hot=False)
    units, queries = private_baselines.matrices(odd, one_hot=True)
    assert codes.tolist() == [[1.0, 2.0, 0.0]]
    assert units.tolist() == [[1.0, 0.0, 0.0, 1.0, 0.0]]
    norm = np.sqrt(len(SCHEMA.columns))
    assert (np.linalg.norm(np.vstack([units, queries]), axis=1) <= norm).all()


def test_it_runs_without_peers(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "diffprivlib.models", None)
    monkeypatch.setattr(tabular, "load_tables", lambda names: [TASK])
    monkeypatch.setattr(sys, "argv", ["tabular", "--epsilon", "5", "--runs", "2", "--task", "own"])
    tabular.main()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["method"] for line in lines] == [
        "naive Bayes",
        "logistic regression",
        "naive Bayes, tables",
        "naive Bayes, local one-attribute",
    ]
    assert lines[0]["percent"] == 100.0
    assert "deviation" in lines[2]


def test_it_prints_what_published_settings_cost(monkeypatch, capsys):
    monkeypatch.setattr(tabular, "load_tables", lambda names: None)  # reads nothing
    monkeypatch.setattr(sys, "argv", ["tabular", "--published"])
    tabular.main()
    said = capsys.readouterr().out
    assert said.count("## ") == 4
    assert "| car | 12 | 9 |" in said
