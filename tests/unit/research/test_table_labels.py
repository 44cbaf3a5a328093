from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_research import table_labels
from dpicl_research.logistic_regression import logistic_regression
from dpicl_research.table_arms import Arm, Settings, arms
from dpicl_research.table_labels import read_report
from dpicl_research.table_releases import group_by
from dpicl_research.table_tasks import TableTask, load_tables, table_task
from tests.support.private_rows import BASE, SCHEMA
from tests.support.tiny_model import build_tiny_model

TRAIN = [BASE[0]] * 30 + [BASE[1]] * 20 + [BASE[2]] * 10
TASK = TableTask("people", SCHEMA, TRAIN, BASE[:3] * 4)


@pytest.fixture(scope="module")
def model():
    return build_tiny_model()


@pytest.fixture
def run(model, tmp_path):
    """Run in ``tmp_path / "run"``."""

    def go(on_progress=None, tasks=(TASK,), **given):
        names = {task.name: task.digest for task in tasks}
        settings = Settings(model.fingerprint, (1.0, 8.0), (1, 2, 4), 3, 2, names)
        settings = replace(settings, **given)
        table_labels.run(model, tasks, settings, tmp_path / "run", on_progress)
        return read_report(tmp_path / "run")

    return go


@pytest.mark.heavy
def test_every_arm_has_a_line(run):
    told = []
    report = run(lambda *at: told.append(at))
    lines = report.lines
    assert [line.arm for line in lines] == arms((1.0, 8.0), (1, 2, 4))
    by_arm = {line.arm: line for line in lines}
    assert by_arm[Arm("majority class")].accuracy == pytest.approx(1 / 3)
    assert by_arm[Arm("naive Bayes")].accuracy == 1.0
    assert by_arm[Arm("logistic regression")].accuracy == 1.0
    assert by_arm[Arm("naive Bayes, tables", 8.0)].accuracy > 0.6
    for line in lines:
        assert line.seeds == 2
        assert 0 <= line.accuracy <= 1
        assert line.error is not None
        assert (line.corrected is None) == (line.arm.k is None)
    assert told[0] == (0, 6)
    assert told[-1] == (6, 6)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    (words,) = report.tables()
    assert words.title.startswith("people: accuracy in percent, 2 of 2 seeds x 3 queries")
    assert len(words.rows) == len(lines)
    assert words.rows[0][2:] == ("", "33", "")
    beside = report.overview()
    assert beside.columns[-1] == "people"
    assert [" / " in row[-1] for row in beside.rows] == [line.arm.k is not None for line in lines]
    assert json.loads(json.dumps(report.summary()))["queries"] == 3


def test_what_is_scored_is_the_model_s_own_likelihood(model):
    asker = table_labels._Asker(model, TASK, {"a": [], "b": [["45 years, smith. Rich?", "Yes"]]})
    found = asker.scores(BASE[0])
    assert set(found) == {"a", "b"}
    assert found["a"] != found["b"]
    for scores in found.values():
        assert np.exp(scores).sum() == pytest.approx(1, abs=1e-5)
    assert asker.scores(None) != found


def test_the_prior_is_taken_out():
    lines = [
        {"query": -1, "right": None, "scores": {"a": [-0.1, -2.0]}},
        {"query": 0, "right": 1, "scores": {"a": [-0.5, -1.0]}},
        {"query": 1, "right": 0, "scores": {"a": [-0.05, -3.0]}},
    ]
    assert list(table_labels._accuracies(lines)) == [("a", (0.5, 1.0))]
    assert list(table_labels._accuracies(lines[1:])) == []


@pytest.mark.heavy
def test_a_killed_run_goes_on_and_more_seeds_and_tasks_add_to_it(run, tmp_path, monkeypatch):
    class Killed(Exception):
        pass

    def kill(done, total):
        if done == 2:
            raise Killed

    with pytest.raises(Killed):
        run(kill, seeds=1)
    with (tmp_path / "run" / "results.jsonl").open("a") as stream:
        stream.write('{"task": "peo')  # a line that was cut off
    first = run(seeds=1)
    kept = (tmp_path / "run" / "shots.jsonl").read_text()
    again = run(seeds=1)
    assert again == first
    other = TableTask("others", SCHEMA, TRAIN, BASE[:2])
    report = run(tasks=(TASK, other), seeds=2)
    lines, settings = report.lines, report.settings
    assert (tmp_path / "run" / "shots.jsonl").read_text().startswith(kept)
    assert {line.task for line in lines} == {"people", "others"} == set(settings["tasks"])
    assert {line.seeds for line in lines} == {2}
    monkeypatch.setattr(table_labels, "released", lambda *_: pytest.fail("again"))
    assert run(tasks=(TASK,)).lines == lines


def test_other_settings_in_the_folder_are_refused(run):
    run(seeds=1)
    with pytest.raises(ConfigurationError, match=r"other settings \(queries\)"):
        run(queries=2)
    with pytest.raises(ConfigurationError, match=r"other settings \(people\)"):
        run(tasks=(TableTask("people", SCHEMA, TRAIN[:5], TASK.test),))


def test_groups_are_halved_by_public_names():
    assert group_by(SCHEMA, 1) == ()
    assert group_by(SCHEMA, 2) == ("rich",)
    assert group_by(SCHEMA, 4) == ("rich", "job")
    with pytest.raises(ConfigurationError, match="2 columns in group_by"):
        group_by(SCHEMA, 8)
    with pytest.raises(ConfigurationError, match="powers of two"):
        arms([1.0], [3])


def test_logistic_regression_weighs_columns_together():
    rows = [
        {"age": 20 + 30 * (n % 3 > 0), "job": ("clerk", "smith")[n % 2], "rich": str(n % 2)}
        for n in range(60)
    ]
    task = TableTask("own", SCHEMA, rows, rows)
    assert (logistic_regression(task) == task.right).all()


def test_tables_are_found_or_refused(monkeypatch, tmp_path):
    with pytest.raises(ConfigurationError, match="unknown task 'cars'"):
        load_tables(["cars"])
    monkeypatch.delenv("DPICL_RAG_DATA", raising=False)
    with pytest.raises(ConfigurationError, match="set DPICL_RAG_DATA"):
        load_tables(["car"])
    monkeypatch.setenv("DPICL_RAG_DATA", str(tmp_path))
    with pytest.raises(ConfigurationError, match="there is no such table"):
        load_tables(["car"])
    file = tmp_path / "rows.csv"
    file.write_text("age,rich\n20,1\n30,maybe\n")
    task = table_task("own", SCHEMA, file, file)
    assert len(task.train) == 1
    file.write_text("age,rich\n20,maybe\n")
    with pytest.raises(ConfigurationError, match="no row has one of the labels"):
        table_task("own", SCHEMA, file, file)
    with pytest.raises(ConfigurationError, match="holds no run"):
        read_report(tmp_path / "absent")
