"""Membership inference on synthetic shots: what is attacked, and with what it is compared."""

from __future__ import annotations

import json
import math

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_research import synthetic_membership
from dpicl_research.attack import largest_auroc
from dpicl_research.label_scores import Scorer
from dpicl_research.synthetic_examples import settings_for
from dpicl_research.synthetic_membership import halves, read_attacks
from dpicl_research.synthetic_shots import Arm, Shots, arms
from dpicl_research.tasks import Item, Task, Template
from tests.support.tiny_model import build_tiny_model

GIVEN = {
    **{"seeds": 3, "shots": 2, "queries": 0, "delta": 1e-3, "max_tokens": 2, "experts": 2},
    **{"candidates": 10, "text_tokens": 12},
}


@pytest.fixture(scope="module")
def model():
    return build_tiny_model()


@pytest.fixture
def many():
    items = [
        Item(f"word {n} here", ("Plus", "Zero")[n % 2], ("Plus", "Zero")[n % 2]) for n in range(40)
    ]
    return Task(
        "w", Template("", "Text:", "Label:"), ("Plus", "Zero"), tuple(items), tuple(items[:2])
    )


@pytest.fixture
def go(model, many, tmp_path):
    settings = settings_for(many, model, 0.5, **GIVEN)

    def run(rows, **given):
        given = {"attacked": 4} | given
        synthetic_membership.run(model, many, settings, rows, tmp_path / "run", **given)
        return {line.arm: line for line in read_attacks(tmp_path / "run").lines}

    return run


def test_halves_share_nothing_and_hold_all(many):
    inside, outside = halves(many, 3)
    assert set(inside) | set(outside) == set(many.pool)
    assert not set(inside) & set(outside)
    assert halves(many, 3) == (inside, outside) != halves(many, 4)


@pytest.mark.heavy
def test_every_row_has_attacks_and_private_ones_a_bound(go, tmp_path):
    found = go(arms(["difference"], [1.0]))
    assert list(found) == ["zero-shot", "real", "no-noise", "data-free", "difference"]
    bare, private = found["zero-shot"], found["difference"]
    assert bare.likelihood_ratio.auroc == 0.5
    assert (bare.bound, found["data-free"].bound) == (0.5, 0.5)
    assert found["real"].bound is found["no-noise"].bound is None
    expected = largest_auroc(2 * private.true_epsilon, 1e-3 * (1 + math.exp(private.true_epsilon)))
    assert private.bound == pytest.approx(expected)
    assert 0.5 < private.bound < 1
    report = read_attacks(tmp_path / "run")
    (table,) = report.tables()
    assert [row[2] for row in table.rows][1:3] == ["not private"] * 2
    assert json.loads(json.dumps(report.summary()))["attacked"] == 4


@pytest.mark.heavy
def test_what_was_attacked_is_not_attacked_again(go, monkeypatch):
    rows = [Arm("zero-shot"), Arm("difference", 1.0)]
    first = go(rows)
    monkeypatch.setattr(synthetic_membership, "shots_of", lambda *_: pytest.fail("again"))
    assert go(rows) == first


@pytest.mark.heavy
def test_shots_are_written_from_the_first_half_alone(go, many, monkeypatch):
    pools = []

    def noted(model, task, settings, arm, seed, folder, tell):
        pools.append((seed, task.pool))
        return Shots(task.pool[:2])

    monkeypatch.setattr(synthetic_membership, "shots_of", noted)
    go([Arm("real"), Arm("no-noise")])
    assert all(pool == halves(many, seed)[0] for seed, pool in pools)


def test_shots_that_are_records_are_found(go, monkeypatch):
    """The plant: a model that knows its shots' texts again, so that ``real`` must stand out."""

    def knowing(self, context, query, choice, subsets):
        knows = any(item.text == query for item in context)
        shares = {True: 0.9, False: 0.5 + 0.001 * (len(query) % 3)}
        said = [math.log(shares[knows]), math.log(1 - shares[knows])]
        bare = [math.log(shares[False]), math.log(1 - shares[False])]
        rows = {True: said, False: bare}
        return {s: rows[bool(s)] if choice.right == 0 else rows[bool(s)][::-1] for s in subsets}

    monkeypatch.setattr(Scorer, "score", knowing)
    found = go([Arm("zero-shot"), Arm("real"), Arm("difference", 1.0)])
    assert found["real"].likelihood_ratio.auroc == 1.0
    assert found["real"].confidence.auroc == 1.0
    for arm in ("zero-shot", "difference"):
        assert found[arm].likelihood_ratio.auroc == 0.5


@pytest.mark.parametrize("attacked", [1, 21])
def test_too_few_or_too_many_to_attack(go, attacked):
    with pytest.raises(ConfigurationError, match="at most half of the examples"):
        go([Arm("zero-shot")], attacked=attacked)
