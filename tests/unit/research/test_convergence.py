"""Products of experts against one prompt: equal without interaction, bounded by it else."""

from __future__ import annotations

import json
import math

import pytest
import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_research import plots
from dpicl_research.approximation import predicted
from dpicl_research.convergence import (
    MEASURED,
    build_convergence_report,
    interaction,
    log_predicted,
)
from dpicl_research.scores_folder import Record, Reporting, Run, Settings

EXPERTS = (1, 2, 4, 8)


def distance_allowed(nats):
    """The largest total variation distance of two distributions with such an `interaction`."""
    return math.tanh(nats / 4)


def made_run(says=lambda likelihoods: likelihoods.sum(dim=0), *, kind="accuracy", seeds=3):
    """Examples that are independent given the label; ``says`` adds their log-likelihoods up."""
    random = torch.Generator().manual_seed(5)
    records = []
    for seed in range(seeds):
        for query in range(4):
            prior = torch.log_softmax(torch.randn(3, generator=random, dtype=torch.float64), 0)
            own = torch.randn(max(EXPERTS), 3, generator=random, dtype=torch.float64)
            own[:, 0] += 1.0  # one label fits best

            def row(some, prior=prior):
                return torch.log_softmax(prior + some, 0).tolist()

            rows = {(): prior.tolist(), **{(i,): row(own[i]) for i in range(len(own))}}
            for n in EXPERTS[1:]:
                rows[tuple(range(n))] = row(says(own[:n]))
            records.append(Record(seed, query, ("a", "b", "c"), 0, rows))
    settings = Settings("made", "d", "m", EXPERTS, seeds, 4, 9, (), kind)
    return Run("made", settings, Reporting((), 4.0, 1e-5), tuple(records))


def points(run):
    return {(p.predictor, p.experts): p for p in build_convergence_report(run).points}


def test_without_interaction_the_product_less_the_prior_is_the_prompt_itself():
    found = points(made_run())
    assert list(found) == [(name, n) for name in MEASURED for n in EXPERTS]
    for n in EXPERTS:
        itself = found["k-shot", n]
        assert (itself.distance.mean, itself.interaction.mean) == (0, 0)
        assert itself.margin.mean == pytest.approx(found["soft with prior", n].margin.mean)
        exact = found["soft with prior", n]
        assert exact.distance.mean == pytest.approx(0, abs=1e-12)
        assert exact.interaction.mean == pytest.approx(0, abs=1e-9)
        assert exact.same_label.mean == 1.0
        assert exact.divided.mean == pytest.approx(0, abs=1e-12)
    # The plain product counts the prior n times: that is an interaction of n - 1 priors, and what
    # is divided by n stays apart.
    assert found["soft", 8].divided.mean > found["soft", 2].divided.mean > 0.05
    plain = [found["soft", n].interaction.mean for n in EXPERTS]
    assert plain == pytest.approx([plain[1] * (n - 1) for n in EXPERTS])
    assert found["soft", 1].distance.mean == pytest.approx(0, abs=1e-12)
    margins = [found["soft with prior", n].margin.mean for n in EXPERTS]
    assert margins == sorted(margins)


def test_a_bounded_interaction_is_outgrown_and_one_that_keeps_step_is_not():
    push = torch.tensor([0.0, 1.5, 0.0], dtype=torch.float64)
    bounded = points(made_run(lambda own: own.sum(dim=0) + push))
    keeping = points(made_run(lambda own: own.sum(dim=0) + len(own) * push))
    for n in EXPERTS[1:]:
        assert bounded["soft with prior", n].interaction.mean == pytest.approx(1.5)
        assert keeping["soft with prior", n].interaction.mean == pytest.approx(1.5 * n)
    # Theorem 3.4: divided by n, a bounded interaction vanishes, and one that grows with n stays.
    apart = [
        [of["soft with prior", n].divided.mean for n in EXPERTS[1:]] for of in (bounded, keeping)
    ]
    assert apart[0][0] > 2 * apart[0][-1]
    assert apart[1][-1] > 0.8 * apart[1][0]
    for n in EXPERTS[1:]:
        assert bounded["soft with prior", n].divided.mean <= distance_allowed(1.5 / n)
    assert bounded["soft with prior", 8].distance.mean < 0.1
    assert keeping["soft with prior", 8].distance.mean > 0.5


def test_no_distance_is_larger_than_its_interaction_allows_and_two_labels_reach_it():
    random = torch.Generator().manual_seed(1)
    for labels in (2, 3, 9):
        for scale in (0.1, 1.0, 5.0):
            for _ in range(200):
                pair = torch.randn(2, labels, generator=random, dtype=torch.float64) * scale
                one, other = torch.log_softmax(pair, dim=1)
                distance = float((one.exp() - other.exp()).abs().sum() / 2)
                assert distance <= distance_allowed(interaction(one, other)) + 1e-12
    for nats in (0.5, 2.0, 8.0):
        high = 1 / (1 + math.exp(-nats / 2))
        pair = torch.tensor([[high, 1 - high], [1 - high, high]], dtype=torch.float64).log()
        assert interaction(*pair) == pytest.approx(nats)
        assert 2 * high - 1 == pytest.approx(distance_allowed(nats))


def test_a_bound_that_is_too_small_is_found():
    """A planted fault: a range of I allows more than tanh(I / 8)."""
    pair = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64).log()
    assert math.tanh(interaction(*pair) / 8) < 0.8


def test_same_label_where_the_margin_is_larger_than_the_interaction():
    push = torch.tensor([0.0, 3.0, 0.0], dtype=torch.float64)
    run = made_run(lambda own: own.sum(dim=0) + push, seeds=20)
    decided = 0
    for record in run.records:
        for n in EXPERTS[1:]:
            product = log_predicted(record, "soft with prior", n)
            first, second = product.topk(2).values
            if first - second > 3.0 + 1e-9:
                decided += 1
                assert predicted(record, "k-shot", n).argmax() == product.argmax()
    assert decided > 50


def test_logs_are_those_of_the_predictors_and_do_not_underflow():
    run = made_run()
    for name in ("soft", "soft with prior"):
        product = log_predicted(run.records[0], name, 8)
        assert torch.allclose(product.exp(), predicted(run.records[0], name, 8), atol=1e-12)
    rows = {(): [-1.0, -1.0], **{(i,): [0.0, -300.0] for i in range(4)}, (0, 1, 2, 3): [0.0, -9.0]}
    far = log_predicted(Record(0, 0, ("a", "b"), 0, rows), "soft", 4)
    assert float(far[1]) == -1200.0


def test_what_is_refused():
    with pytest.raises(ConfigurationError, match="examples of the context themselves"):
        build_convergence_report(made_run(kind="membership"))
    run = made_run()
    lacking = [Record(0, 0, ("a", "b", "c"), 0, {(): [0.0, 0.0, 0.0]})]
    for records, says in (((), "no scores yet"), (tuple(lacking), "zero-shot,k-shot,soft")):
        with pytest.raises(ConfigurationError, match=says):
            build_convergence_report(Run("made", run.settings, run.reporting, records))


@pytest.mark.heavy
def test_tables_json_and_plot(tmp_path, monkeypatch):
    report = build_convergence_report(made_run())
    (table,) = report.tables()
    assert len(table.rows) == len(MEASURED) * len(EXPERTS)
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert json.loads(json.dumps(report.summary()))["points"][0]["experts"] == 1
    drawn = []
    figure = plots._figure
    monkeypatch.setattr(plots, "_figure", lambda n: drawn.append(figure(n)) or drawn[-1])
    plots.save_convergence(report, tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    left, right = drawn[0].axes
    assert list(left.lines[0].get_xdata()) == list(EXPERTS)
    assert len([line for line in right.lines if line.get_label()[0] != "_"]) == 5
    with pytest.raises(ConfigurationError, match="cannot be written there"):
        plots.save_convergence(report, tmp_path / "no" / "c.png")
