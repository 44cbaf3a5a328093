from __future__ import annotations

import json

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_research import plots, synthetic_examples, synthetic_shots
from dpicl_research.synthetic_examples import settings_for
from dpicl_research.synthetic_report import Line, SyntheticReport, read_report
from dpicl_research.synthetic_shots import Arm, arms
from tests.support.tiny_model import build_tiny_model

GIVEN = {
    "seeds": 2,
    "shots": 2,
    "queries": 2,
    "delta": 1e-2,
    "max_tokens": 3,
    "experts": 2,
    "candidates": 10,
    "text_tokens": 12,
}


@pytest.fixture(scope="module")
def model():
    return build_tiny_model()


@pytest.fixture
def run(model, task, tmp_path):
    """Run in ``tmp_path / "run"`` with methods at epsilon 2."""

    def go(*methods, on_progress=None, rate=0.5, **given):
        settings = settings_for(task, model, rate, **(GIVEN | given))
        rows = arms(methods, [2.0])
        synthetic_examples.run(model, task, settings, rows, tmp_path / "run", on_progress)
        return read_report(tmp_path / "run")

    return go


@pytest.mark.heavy
def test_every_arm_has_a_line_with_its_true_epsilon(run):
    told = []
    report = run("exponential", "difference:all", on_progress=lambda *at: told.append(at))
    lines = report.lines
    found = {line.arm: line for line in lines}
    assert list(found) == [
        *("zero-shot", "real", "no-noise", "data-free"),
        *("exponential", "difference:all"),
    ]
    assert [line.true_epsilon for line in lines][:4] == [None, None, None, 0.0]
    assert [line.seconds is None for line in lines] == [True, True, *[False] * 4]
    assert found["exponential"].true_epsilon == 2.0
    assert 1.9 < found["difference:all"].true_epsilon <= 2.0
    for line in lines:
        assert line.seeds == 2
        assert 0 <= line.accuracy <= 1
        assert line.error is not None
    assert told[0] == (0, 12)
    assert told[-1] == (12, 12)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    (words,) = report.tables()
    assert "2 of 2 seeds x 2 queries" in words.title
    assert [row[2] for row in words.rows[:3]] == ["not private"] * 3
    assert json.loads(json.dumps(report.summary()))["lines"][3]["epsilon"] == 0.0


@pytest.mark.heavy
def test_a_killed_run_goes_on_and_more_seeds_add_to_it(run, monkeypatch):
    class Killed(Exception):
        pass

    def kill(done, total):
        if done > 5.5:
            raise Killed

    with pytest.raises(Killed):
        run("few-shot:all", on_progress=kill)
    before = run("few-shot:all", seeds=1).lines
    after = run("few-shot:all").lines
    assert {line.arm: line.seeds for line in after} == dict.fromkeys(
        ["zero-shot", "real", "no-noise", "data-free", "few-shot:all"], 2
    )
    assert len(before) == 5
    monkeypatch.setattr(synthetic_examples, "shots_of", lambda *_, **__: pytest.fail("again"))
    assert run("few-shot:all").lines == after


def test_other_settings_in_the_folder_are_refused(run):
    run("exponential", seeds=1)
    with pytest.raises(ConfigurationError, match=r"other settings \(queries\)"):
        run("exponential", seeds=1, queries=3)


def test_a_folder_of_before_these_settings_goes_on(task, model):
    """What is as it was then stands in no folder, so that it is not another run's."""
    usual = synthetic_examples.kept(settings_for(task, model, 0.5, **GIVEN))
    assert not {"per_expert", "adaptive", "radius"} & set(usual)
    changed = settings_for(task, model, 0.5, per_expert=2, radius=0.3, **GIVEN)
    assert synthetic_examples.kept(changed) == {**usual, "per_expert": 2, "radius": 0.3}


def test_a_price_above_epsilon_is_said_before_anything_is_written(task, model, tmp_path):
    constants = {"radius_noise": 3.0, "mean_noise": 1.0, "count_noise": 2.0}
    settings = settings_for(task, model, 0.5, adaptive=constants, **GIVEN)
    with pytest.raises(ConfigurationError, match="give a larger epsilon"):
        synthetic_examples.run(model, task, settings, arms(["adaptive"], [0.1]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
def test_the_shots_of_data_free_texts_read_nothing(run, monkeypatch):
    read = []
    right = synthetic_shots.synthesise_examples

    def noted(examples, *rest, **settings):
        read.append(len(examples))
        return right(examples, *rest, **settings)

    monkeypatch.setattr(synthetic_shots, "synthesise_examples", noted)
    run("exponential", seeds=1)
    assert read == [0, 6]


def test_what_is_refused(task, model, tmp_path):
    for name in ("magic", "adaptive:all", "difference:published"):
        with pytest.raises(ConfigurationError, match="unknown method"):
            arms([name], [1.0])
    assert arms(["adaptive"], [1.0])[-1] == Arm("adaptive", 1.0)
    with pytest.raises(ConfigurationError, match="public --rate"):
        settings_for(task, model, None, **GIVEN)
    with pytest.raises(ConfigurationError, match="at most the labels"):
        settings_for(task, model, 0.5, **(GIVEN | {"shots": 3}))
    with pytest.raises(ConfigurationError, match="holds no run"):
        read_report(tmp_path)


def test_a_plot_shows_every_arm_with_its_errors(monkeypatch, tmp_path):
    drawn = []
    figure = plots._figure
    monkeypatch.setattr(plots, "_figure", lambda n: drawn.append(figure(n)) or drawn[-1])
    lines = [
        Line("real", None, None, 0.75, 0.02, 0.75, 0.02, 5),
        Line("difference", 4.0, 3.9, 0.625, 0.125, 0.5, None, 5),
        Line("difference", 1.0, 0.9, 0.5, 0.125, 0.25, None, 5),
    ]
    report = SyntheticReport({"task": "dbpedia", "shots": 4}, lines)
    plots.save_synthetic(report, tmp_path / "shots.png")
    left, right = drawn[0].axes
    assert [line.get_label() for line in left.lines if line.get_label()[0] != "_"] == [
        "real",
        "difference",
    ]
    assert list(left.lines[0].get_ydata()) == [75.0, 75.0]
    for panel, shares in ((left, [50.0, 62.5]), (right, [25.0, 50.0])):
        assert list(panel.lines[1].get_xdata()) == [0.9, 3.9]
        assert list(panel.lines[1].get_ydata()) == shares
    (bars,) = left.collections
    assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [
        [37.5, 62.5],
        [50.0, 75.0],
    ]
