"""Figures of a report against hand computation."""

from __future__ import annotations

import json
import math

import pytest

from dpicl_rag.accounting import Adjacency, Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods import make
from dpicl_research import plots
from dpicl_research.approximation import approximations
from dpicl_research.comparison import compare, with_clip
from dpicl_research.run_tables import build_report, fewer_answers
from dpicl_research.scores_folder import Record, Reporting, Run, Settings


def logs(*shares):
    return [math.log(share) for share in shares]


def record(seed, query, right, rows):
    return Record(seed, query, ("a", "b"), right, {k: logs(*v) for k, v in rows.items()})


def made_run(records, experts=(2,), seeds=2, queries=2):
    settings = Settings("words", "d", "m", experts, seeds, queries, 16, ())
    return Run("words", settings, Reporting(("soft",), 4.0, 1e-5), tuple(records))


ROWS = {
    (): (0.5, 0.5),
    (0,): (0.8, 0.2),
    (1,): (0.4, 0.6),
    (0, 1): (0.7, 0.3),
}


@pytest.fixture
def run():
    """The same rows everywhere; label a is right in three queries of four."""
    return made_run(record(s, q, int((s, q) == (1, 1)), ROWS) for s in range(2) for q in range(2))


def line(run, name, **budget):
    found = compare(run, [make(name)], [2], Budget(**{"epsilon": 4.0, "delta": 1e-5, **budget}))
    return found[0]


def test_methods_without_noise(run):
    for name in ("k-shot", "soft"):
        found = line(run, name)
        # Label a always: right in 2 of 2 and in 1 of 2.
        assert found.accuracy == pytest.approx(0.75)
        assert found.error == pytest.approx(0.25)  # |1 - 0.5| / 2 over two seeds
        assert found.epsilon is None
    for name in ("zero-shot", "hard"):  # ties count half
        assert line(run, name).accuracy == pytest.approx(0.5)
        assert line(run, name).error == pytest.approx(0.0)


def test_the_product_of_experts_by_hand(run):
    # epsilon 4 and clip 4 make lambda 1; nothing is below e^-4.
    a = 0.8 * 0.4 / (0.8 * 0.4 + 0.2 * 0.6)
    found = line(run, "poe")
    assert found.accuracy == pytest.approx((a + (a + 1 - a) / 2) / 2)
    assert (found.epsilon, found.true_epsilon, found.note) == (4.0, 4.0, "")
    # Under replacement lambda is a half.
    root = (a / (1 - a)) ** 0.5
    b = root / (1 + root)
    found = line(run, "poe", adjacency=Adjacency.REPLACE_ONE)
    assert found.accuracy == pytest.approx((b + 0.5) / 2)


def test_one_seed_has_no_standard_error(run):
    assert line(made_run(run.records[:2], seeds=1), "soft").error is None


def test_a_published_charge_has_a_line_of_its_own(run):
    replaced = Budget(4.0, 1e-5, Adjacency.REPLACE_ONE)
    exact, published = compare(run, [make("poe")], [2], replaced)
    assert published.method == "poe, as published"
    assert exact.true_epsilon == 4.0
    assert published.true_epsilon == pytest.approx(8.0, abs=0.01)  # at delta 1e-5
    assert published.accuracy > exact.accuracy
    assert len(compare(run, [make("poe")], [2], Budget(4.0, 1e-5))) == 1


def test_what_cannot_be_shown_says_why(run):
    assert "not in this run" in line(run, "poe-prior").note
    found = line(run, "sampling", adjacency=Adjacency.REPLACE_ONE)
    assert found.accuracy is None
    assert "add-or-remove" in found.note


def test_only_methods_with_a_clip_take_part_in_its_sweep():
    assert with_clip(make("poe-prior"), 0.5).parameters["clip"] == 0.5
    assert with_clip(make("poe-prior"), 0.5).name == "poe-prior"
    assert with_clip(make("votes"), 0.5) is None


def test_a_budget_for_many_answers_is_shown_for_fewer_and_as_it_is_spent(run):
    budget = Budget(4.0, 1e-5, queries=300)
    methods = [make("votes-gaussian"), make("zero-shot")]
    report = build_report(run, methods, budget, epsilons=(), clips=(), answers=(1, 100, 300))
    exact, published, _ = report.lines
    assert report.by_answers[-2:] == ((300, exact), (300, published))
    assert [n for n, line in report.by_answers if line.method == exact.method] == [1, 100, 300]
    few, more, all_of_them = (epsilon for _, _, epsilon in report.spent)
    assert few < more < all_of_them == pytest.approx(4.0, rel=0.01)
    accuracy, by_answers, noise, spent = report.tables()[:4]
    assert by_answers.columns == noise.columns == spent.columns == ("method", "1", "100", "300")
    assert "epsilon 4, delta 1e-05 for them" in by_answers.title
    assert by_answers.rows[0][-1] == accuracy.rows[0][-1]
    sigma = make("votes-gaussian").calibrate(budget).parameter
    assert noise.rows[0] == ("votes-gaussian", "1.081", "10.81", f"{sigma:.4g}")
    assert spent.rows[0][-1] == "4"
    assert json.loads(json.dumps(report.summary()))["spent"][0]["answers"] == 1


@pytest.mark.heavy
def test_methods_with_experts_are_compared_over_rates(run):
    methods = [make("votes-gaussian", rate=0.5, group_size=2), make("votes", rate=0.5)]
    report = build_report(
        run, methods, Budget(4.0, 1e-2, queries=2), epsilons=(), clips=(), rates=(0.1, 0.5, 1.0)
    )
    found = {(rate, line.method): line for rate, line in report.by_rate}
    gaussian = ["votes-gaussian", "votes-gaussian, as published"]
    assert list(dict.fromkeys(name for _, name in found)) == [*gaussian, "votes"]
    assert found[0.5, "votes-gaussian"] == report.lines[0]
    low, half = (found[rate, "votes-gaussian"].parameter for rate in (0.1, 0.5))
    assert low < half < found[1.0, "votes-gaussian"].parameter
    by_rate, noise = report.tables()[1:3]
    assert by_rate.rows[2][1:3] == ("-", "-")  # many draws on samples; why stands further up
    assert noise.rows[2][:3] == ("votes", "", "")
    assert "no exact charge" in report.markdown()


def test_powers_of_ten_up_to_the_answers():
    assert fewer_answers(1) == []
    assert fewer_answers(10_000) == [1, 10, 100, 1000, 10_000]
    assert fewer_answers(250) == [1, 10, 100, 250]


def test_soft_against_hard_by_hand(run):
    found = {a.predictor: a for a in approximations(run, 2)}
    soft = 0.32 / 0.44
    # Three queries in four want label a, by seeds (a, a) and (a, b).
    assert found["soft"].likelihood.mean == pytest.approx((soft + 0.5) / 2)
    assert found["soft with prior"].likelihood.mean == pytest.approx((soft + 0.5) / 2)
    assert found["k-shot"].likelihood.mean == pytest.approx((0.7 + 0.5) / 2)
    assert found["hard"].likelihood.mean == pytest.approx(0.5)
    # Without the first example the product says 0.4, without the second 0.8.
    assert found["soft"].change.mean == pytest.approx(soft - 0.4)
    assert found["hard"].change.mean == pytest.approx(0.5)
    assert found["zero-shot"].change.mean == 0
    # Without one of two examples the prompt has the other alone.
    assert found["k-shot"].change.mean == pytest.approx(0.3)
    assert found["soft"].distance.mean == pytest.approx(soft - 0.7)
    assert found["hard"].distance.mean == pytest.approx(0.2)
    assert found["k-shot"].distance.mean == 0


def test_the_prior_counts_once():
    rows = {**ROWS, (): (0.25, 0.75)}
    run = made_run([record(0, 0, 0, rows)], seeds=1, queries=1)
    found = {a.predictor: a for a in approximations(run, 2)}
    a, b = 0.8 * 0.4 / 0.25, 0.2 * 0.6 / 0.75
    assert found["soft with prior"].likelihood.mean == pytest.approx(a / (a + b))


def test_leaving_one_out_of_the_prompt_needs_rows_of_its_own():
    three = {
        **ROWS,
        (2,): (0.6, 0.4),
        (0, 1, 2): (0.9, 0.1),
        (0, 2): (0.2, 0.8),
        (1, 2): (0.8, 0.2),
    }
    found = approximations(made_run([record(0, 0, 0, three)], (3,), 1, 1), 3)
    change = {a.predictor: a.change for a in found}["k-shot"]
    assert change.mean == pytest.approx(0.7)
    del three[1, 2]
    found = approximations(made_run([record(0, 0, 0, three)], (3,), 1, 1), 3)
    assert {a.predictor: a.change for a in found}["k-shot"] is None


def test_tables_have_a_cell_for_every_method_and_number(run):
    methods = [make(name) for name in ("zero-shot", "soft", "poe", "poe-prior")]
    report = build_report(run, methods, Budget(4.0, 1e-5), epsilons=(1.0, 4.0), clips=(2.0, 4.0))
    tables = report.tables()
    for table in tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
    accuracy, epsilon, clip, soft, ranks = tables
    assert accuracy.rows[0] == ("zero-shot", "0", "50.0 ± 0.0")
    assert accuracy.rows[1] == ("soft", "not private", "75.0 ± 25.0")
    assert accuracy.rows[2][:2] == ("poe", "4")
    assert epsilon.columns == ("method", "1", "4")
    assert epsilon.rows[0][2] == accuracy.rows[2][2] == clip.rows[0][2]
    assert soft.rows[1][2] == "30.0 ± 0.0"
    assert report.heading() == "words: 2 seeds x 2 queries"
    assert ranks.columns[:2] == ("label 1", "label 2")
    first, second = (estimate.mean for estimate in report.by_rank[:2])
    assert first >= second
    assert report.markdown().count("\n## ") == 5
    assert "| zero-shot | 0 | 50.0 ± 0.0 |" in report.markdown()


def test_the_summary_is_json_and_says_what_is_unfinished(run):
    report = build_report(
        made_run(run.records[:3]), [make("soft"), make("poe-prior")], Budget(4.0, 1e-5)
    )
    summary = json.loads(json.dumps(report.summary(), allow_nan=False))
    assert summary["complete"] is False
    assert summary["methods"][0]["accuracy"] == pytest.approx(1.0)
    assert "UNFINISHED: 3 of 4" in report.heading()


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_a_sweep_out_of_range(run, epsilon):
    with pytest.raises(ConfigurationError, match="epsilon must be"):
        build_report(run, [make("soft")], Budget(4.0, 1e-5), epsilons=(1.0, epsilon))


def test_a_run_without_scores():
    with pytest.raises(ConfigurationError, match="no scores yet"):
        build_report(made_run([]), [make("soft")], Budget(4.0, 1e-5))


@pytest.mark.heavy
def test_files_of_a_report(run, tmp_path):
    pytest.importorskip("matplotlib")
    report = build_report(
        run,
        [make("soft"), make("poe"), make("votes", rate=0.5)],
        Budget(4.0, 1e-5, queries=10),
        answers=(1, 10),
        rates=(0.5, 1.0),
    )
    files = plots.save(report, tmp_path / "out")
    assert [file.name for file in files] == ["report-words.md", "report-words.png"]
    assert files[0].read_text() == report.markdown()
    assert files[1].read_bytes().startswith(b"\x89PNG")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        plots.save(report, tmp_path / "file")
