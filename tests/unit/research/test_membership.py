"""Attacks on stored scores with a known answer, and on the tiny model."""

from __future__ import annotations

import json
import math

import pytest

from dpicl_rag.accounting import Adjacency, Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.methods import make
from dpicl_research import paper_protocol, plots
from dpicl_research.attack import largest_auroc
from dpicl_research.membership import build_membership_report
from dpicl_research.paper_protocol import wanted_layouts
from dpicl_research.scores_folder import Record, Reporting, Run, Settings, load_run

BUDGET = Budget(2.0, 1e-5)


def made_run(leak, seeds=6, experts=3):
    """A context raises its examples' labels by ``leak``, and no others."""

    def row(share):
        return [math.log(share), math.log(1 - share)]

    records = []
    for seed in range(seeds):
        for query in range(2 * experts):
            # How likely a label is without examples differs, in the same way on both sides.
            bare = 0.2 + 0.05 * ((seed * 5 + query % experts * 3) % 7)
            seen = bare + (leak if query < experts else 0.0)
            rows = {(): row(bare), (0,): row(seen), (1,): row(seen), (2,): row(seen)}
            rows[0, 1, 2] = row(seen)
            records.append(Record(seed, query, ("a", "b"), 0, rows))
    settings = Settings("w", "d", "m", (experts,), seeds, 2 * experts, 9, (), "membership")
    return Run("w", settings, Reporting((), 2.0, 1e-5), tuple(records))


def lines(run, names=("zero-shot", "poe"), budget=BUDGET):
    report = build_membership_report(run, [make(name) for name in names], budget)
    return {line.path: line for line in report.lines}


def test_a_context_that_leaks_is_found_and_the_ratio_sees_more():
    found = lines(made_run(0.1))
    assert found["k-shot"].likelihood_ratio.auroc == 1.0
    assert 0.5 < found["k-shot"].confidence.auroc < 1.0
    for path in ("soft", "poe"):
        assert found[path].likelihood_ratio.auroc > 0.7
        assert found[path].confidence.auroc > 0.5
    assert found["zero-shot"].likelihood_ratio.auroc == 0.5
    plain, private = found["k-shot"].released.auroc, found["poe"].released.auroc
    assert plain == pytest.approx(0.55)  # half of the leak above guessing
    assert 0.5 < private < found["poe"].bound


def test_a_context_that_does_not_leak_is_at_one_half():
    # Balanced by construction: every seed's members and others are the same.
    run = made_run(0.0)
    records = tuple(
        Record(r.seed, r.query, r.labels, r.right, made_run(0.0).records[r.query % 3].rows)
        for r in run.records
    )
    found = lines(Run(run.name, run.settings, run.reporting, records))
    for line in found.values():
        for attack in (line.likelihood_ratio, line.confidence, line.released):
            assert (attack.low, attack.auroc, attack.high) == (0.5, 0.5, 0.5)


def test_the_bound_is_that_of_a_replacement():
    run = made_run(0.1)
    assert lines(run)["poe"].bound == pytest.approx(largest_auroc(4.0, 1e-5 * (1 + math.exp(2))))
    replaced = Budget(2.0, 1e-5, Adjacency.REPLACE_ONE)
    assert lines(run, budget=replaced)["poe"].bound == pytest.approx(largest_auroc(2.0, 1e-5))
    assert lines(run)["soft"].bound is None


def test_what_is_left_out_and_what_is_refused():
    report = build_membership_report(made_run(0.1), [make("poe-prior"), make("poe")], BUDGET)
    assert report.left_out == ("poe-prior",)
    run = made_run(0.1)
    cut = Run(run.name, run.settings, run.reporting, run.records[:5])
    with pytest.raises(ConfigurationError, match="no seed is finished"):
        build_membership_report(cut, [make("poe")], BUDGET)


def test_only_whole_seeds_count():
    run = made_run(0.1)
    cut = Run(run.name, run.settings, run.reporting, run.records[:-1])
    report = build_membership_report(cut, [make("poe")], BUDGET)
    assert "UNFINISHED" in report.heading()
    assert report.summary()["complete"] is False


@pytest.mark.heavy
def test_on_the_tiny_model(tiny_model, task, tmp_path):
    """One run of both paths: files, tables and JSON."""
    pytest.importorskip("matplotlib")
    methods = [make(name) for name in ("zero-shot", "k-shot", "poe")]
    paper_protocol.run(
        tiny_model.with_cache(PrefixCache()),
        task,
        wanted_layouts(methods, [3]),
        tmp_path / "run",
        Reporting(("zero-shot", "k-shot", "poe"), 2.0, 1e-5),
        seeds=4,
        queries=6,
        text_tokens=16,
        kind="membership",
    )
    report = build_membership_report(load_run(tmp_path / "run"), methods, BUDGET)
    assert [line.path for line in report.lines] == ["zero-shot", "k-shot", "soft", "hard", "poe"]
    assert report.lines[0].likelihood_ratio.auroc == 0.5
    for line in report.lines:
        assert line.released.low <= line.released.auroc <= line.released.high
    (table,) = report.tables()
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert json.loads(json.dumps(report.summary()))["attacks"][4]["path"] == "poe"
    files = plots.save(report, tmp_path)
    assert files[1].read_bytes().startswith(b"\x89PNG")
