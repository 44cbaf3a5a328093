"""Written shots as lines of the table of methods: same queries, true charge, nothing made up."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from dpicl_rag.accounting import Adjacency, Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods import make
from dpicl_research import paper_protocol, synthetic_examples, written_shots
from dpicl_research.paper_protocol import queries_of, wanted_layouts
from dpicl_research.run_tables import build_report
from dpicl_research.scores_folder import Reporting, load_run
from dpicl_research.synthetic_report import read_report
from dpicl_research.written_shots import Shots, is_writer, written_lines
from tests.support.tiny_model import build_tiny_model

BUDGET = Budget(2.0, 1e-2)
SHOTS = Shots(shots=2, max_tokens=2, experts=2, rate=0.5, candidates=10)
WRITERS = ["few-shot", "exponential"]


@pytest.fixture(scope="module")
def model():
    return build_tiny_model()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
def folder(model, task, kept, tmp_path):
    """A copy of a run of poe over 2 and 3 examples, with written shots beside it."""
    if not kept.exists():
        paper_protocol.run(
            model,
            task,
            wanted_layouts([make("poe"), make("zero-shot")], [2, 3]),
            kept,
            Reporting(("zero-shot", "poe", *WRITERS), BUDGET.epsilon, BUDGET.delta),
            seeds=2,
            queries=2,
            text_tokens=12,
        )
        write(model, task, kept)
    return shutil.copytree(kept, tmp_path / "run")


def write(model, task, folder, writers=WRITERS, **settings):
    given = {"budget": BUDGET, "seeds": 2, "queries": 2, "text_tokens": 12} | settings
    written_shots.write(model, task, writers, SHOTS, folder, **given)


def report(folder, budget=BUDGET, **sweeps):
    run = load_run(folder)
    return build_report(
        run,
        [make("zero-shot"), make("poe")],
        budget,
        **{"epsilons": (), "clips": ()} | sweeps,
        others=lambda at: written_lines(folder, run, WRITERS, at),
    )


@pytest.mark.heavy
def test_written_shots_stand_in_the_table_of_the_others(folder):
    found = report(folder)
    (words,) = [table for table in found.tables() if "Accuracy" in table.title]
    epsilons = {row[0]: row[1] for row in words.rows}
    assert list(epsilons)[:2] == ["zero-shot", "poe"]
    assert epsilons["real shots"] == "not private"
    assert epsilons["data-free shots, prior out"] == "0"
    paid = [name for name in epsilons if "once for all answers" in name]
    assert len(paid) == 4  # two methods, as they are and with the prior taken out
    for name in paid:
        assert 0 < float(epsilons[name]) <= BUDGET.epsilon
    assert all(len(row) == len(words.columns) == 4 and "" not in row for row in words.rows)
    assert json.loads(json.dumps(found.summary()))["methods"][-1]["epsilon"] == 2.0


@pytest.mark.heavy
def test_accuracy_and_charge_are_those_of_the_synthesis_itself(folder):
    alone = {
        (line.arm, line.epsilon): line for line in read_report(folder / written_shots.FOLDER).lines
    }
    assert ("zero-shot", None) not in alone  # it stands among the methods
    for line in report(folder).lines[4:]:
        own = alone[line.method.split(",")[0].removesuffix(" shots"), line.epsilon]
        assert line.true_epsilon == own.true_epsilon
        assert line.accuracy == (own.corrected if "prior out" in line.method else own.accuracy)


def test_both_are_asked_the_same_queries(folder, task, model, monkeypatch):
    asked = []
    right = synthetic_examples._accuracy

    def noted(scorer, shots, queries):
        asked.append(queries)
        return right(scorer, shots, queries)

    monkeypatch.setattr(synthetic_examples, "_accuracy", noted)
    write(model, task, folder, budget=Budget(1.0, 1e-2))
    run = load_run(folder)
    mine = [queries_of(task, seed, run.settings.queries, "accuracy") for seed in (0, 1)]
    assert asked
    assert all(queries in mine for queries in asked)


@pytest.mark.heavy
def test_a_sweep_has_the_epsilons_that_were_written(folder, model, task):
    write(model, task, folder, budget=Budget(1.0, 1e-2))
    swept = report(folder, epsilons=(1.0, 2.0, 4.0)).by_epsilon
    own = {line.epsilon for line in swept if line.method.startswith("few-shot")}
    assert own == {1.0, 2.0}
    assert {line.epsilon for line in swept if line.method == "poe"} == {1.0, 2.0, 4.0}


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (replace(BUDGET, epsilon=4.0), "run it again with this method and epsilon"),
        (replace(BUDGET, delta=1e-5), "written at delta 0.01"),
        (replace(BUDGET, adjacency=Adjacency.REPLACE_ONE), "added or removed"),
    ],
)
def test_another_budget_has_no_figure_and_says_why(folder, budget, says):
    for line in report(folder, budget).lines:
        if "once for all" in line.method or line.method == "few-shot":
            assert (line.accuracy, line.true_epsilon) == (None, None)
            assert says in line.note


def test_shots_of_some_seeds_alone_are_no_figure(folder):
    """A planted fault: a result is lost."""
    file = folder / written_shots.FOLDER / "results.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(
        "".join(line for line in lines if '"few-shot"' not in line or '"seed": 0' in line)
    )
    (missing,) = {e.note for e in report(folder).lines if e.method.startswith("few-shot")}
    assert "run it again" in missing


def test_shots_of_another_run_are_refused(folder):
    """A planted fault: they were asked other queries."""
    file = folder / written_shots.FOLDER / "settings.json"
    file.write_text(file.read_text().replace('"queries": 2', '"queries": 3'))
    with pytest.raises(ConfigurationError, match=r"shots of another run \(queries\)"):
        report(folder)


def test_what_is_a_writer():
    assert all(map(is_writer, ("few-shot", "difference:all", "exponential")))
    assert not any(map(is_writer, ("k-shot", "poe", "real", "data-free", "sampling")))
