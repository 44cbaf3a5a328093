"""What `evaluate tabular` has of DP-TabICL's own: groups, samples, fresh rows, peers, t-tests."""

from __future__ import annotations

import json
import sys
from itertools import product

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from dpicl_rag.errors import ConfigurationError, MissingDependencyError
from dpicl_rag.tabular.schema import PACKAGED, Schema
from dpicl_research import table_labels, table_releases
from dpicl_research.private_baselines import PEERS, peer_models, peers
from dpicl_research.sample_sizes import sizes_by_accuracy
from dpicl_research.t_tests import between_models, compared, comparisons, over_tasks, t_table
from dpicl_research.table_arms import (
    AGGREGATES,
    BITS,
    FRESH,
    REDRAWN,
    Arm,
    More,
    Settings,
    arms,
    sampled,
)
from dpicl_research.table_labels import read_report
from dpicl_research.table_releases import queries_of, rate_of, released
from dpicl_research.table_tasks import TableTask
from tests.support.made_up_peers import install_made_up_peers
from tests.support.private_rows import BASE, SCHEMA
from tests.support.published_figures import PAPERS
from tests.support.tiny_model import build_tiny_model

TRAIN = [BASE[0]] * 30 + [BASE[1]] * 20 + [BASE[2]] * 10
TASK = TableTask("people", SCHEMA, TRAIN, BASE[:3] * 4)
CARS = [
    {"buying": buying, "doors": doors, "safety": "high", "label": label}
    for buying, doors, label in product(("low", "med", "vhigh"), ("2", "5more"), ("0", "1"))
]
CAR = TableTask("car", Schema.read("car"), CARS, CARS[:3])


@pytest.fixture(scope="module")
def model():
    return build_tiny_model()


@pytest.fixture
def run(model, tmp_path):
    def go(task, more=More(), seeds=2, folder="run"):  # noqa: B008 - frozen
        names = {task.name: task.digest}
        settings = Settings(model.fingerprint, (2.0,), (2,), 3, seeds, names, more)
        table_labels.run(model, [task], settings, tmp_path / folder)
        return read_report(tmp_path / folder)

    return go


@pytest.fixture
def diffprivlib(monkeypatch):
    install_made_up_peers(monkeypatch)


MORE = More("published", ("published", "0.5"), redrawn=True, fresh=True, peers=True)


@pytest.mark.heavy
def test_every_line_of_the_paper_s_own_is_there(run, tmp_path, diffprivlib):
    report = run(CAR, MORE)
    assert [line.arm for line in report.lines] == arms((2.0,), (2,), MORE)
    by_method = {line.arm.method: line for line in report.lines}
    new = {sampled("published"), sampled("0.5"), REDRAWN, FRESH, *PEERS}
    assert new <= set(by_method)
    for method in new:
        assert by_method[method].seeds == 2
        assert (by_method[method].corrected is None) == (method in PEERS)
    sizes = sizes_by_accuracy(tmp_path / "run")
    assert [row[:3] for row in sizes.rows] == [
        *(("2", "2", rate) for rate in ("published", "0.5", "1")),
    ]
    assert "(2.62)" in sizes.rows[0][3]  # log(1 + (e^2 - 1) / 0.5)
    assert "(2)" in sizes.rows[2][3]
    table = t_table(tmp_path / "run")
    against = {(row[1], row[4]) for row in table.rows}
    assert {(FRESH, name) for name in (*PEERS, "zero-shot")} <= against
    assert all("2 seeds" in row[-1] for row in table.rows)
    assert json.loads(json.dumps(report.summary()))["more"]["groups"] == "published"


def test_fresh_rows_are_others_for_each_query():
    settings = Settings("m", (1.0,), (4,), 3, 1, {}, More(fresh=True))
    made = released(TASK, settings, 0, {})
    asked = queries_of(TASK, settings, 0)
    assert list(made["fresh"]) == [str(number) for number in asked]
    key = Arm(FRESH, 1.0, 4).key
    assert all(len(shown[key]) == 4 for shown in made["fresh"].values())
    assert key not in made["shots"]


def test_rows_are_redrawn_from_one_reconstruction(monkeypatch):
    """A row's reports leave once, however many queries are shown rows."""
    reports = []
    real = table_releases.bits_from_reports

    def told_of(sent, *given):
        reports.append(list(sent))
        return real(reports[-1], *given)

    monkeypatch.setattr(table_releases, "bits_from_reports", told_of)
    made = released(TASK, Settings("m", (1.0,), (4,), 9, 1, {}, More(redrawn=True)), 0, {})
    assert [len(sent) for sent in reports] == [len(TRAIN)]
    shown = [tuple(map(tuple, one[Arm(REDRAWN, 1.0, 4).key])) for one in made["fresh"].values()]
    assert {len(rows) for rows in shown} == {4}
    assert len(set(shown)) > 1


def test_the_budget_of_fresh_rows_is_shared_by_all_queries(monkeypatch):
    told = []

    class Fresh(table_releases.FreshRows):
        def __init__(self, *given, **more):
            super().__init__(*given, **more)
            told.append(self.charge)

    monkeypatch.setattr(table_releases, "FreshRows", Fresh)
    released(TASK, Settings("m", (1.0,), (4,), 3, 1, {}, More(fresh=True)), 0, {})
    (charge,) = told
    assert (charge.epsilon, charge.queries, charge.k, charge.people) == (1.0, 3, 4, 60)


def test_groups_and_rates_are_handed_on(monkeypatch):
    told = []
    real = table_releases.release_aggregates

    def told_of(rows, schema, epsilon, names, rate=1.0):
        told.append((names, rate, schema.group_by))
        return real(rows, schema, epsilon, names, rate=rate)

    monkeypatch.setattr(table_releases, "release_aggregates", told_of)
    more = More(groups="published", rates=("published", "0.25"))
    released(CAR, Settings("m", (1.0,), (4,), 3, 1, {}, more), 0, {})
    names = ("label", "buying")
    assert told == [(names, rate, ("buying", "doors")) for rate in (1.0, 0.5, 0.25)]


def test_a_run_without_more_is_kept_as_before(run, tmp_path):
    run(TASK, seeds=1)
    assert "more" not in json.loads((tmp_path / "run" / "settings.json").read_text())
    assert "fresh" not in json.loads((tmp_path / "run" / "shots.jsonl").read_text())
    assert "priors" not in (tmp_path / "run" / "results.jsonl").read_text()
    with pytest.raises(ConfigurationError, match="other settings"):
        run(TASK, More(fresh=True), seeds=1)
    run(TASK, More(fresh=True), seeds=1, folder="more")
    with pytest.raises(ConfigurationError, match=r"other settings \(fresh\)"):
        run(TASK, seeds=1, folder="more")


def test_each_fresh_prompt_s_own_prior_is_taken_out():
    prior = {"query": -1, "right": None, "scores": {}}
    lines = [
        {"query": 0, "right": 1, "scores": {"f": [-0.5, -1.0]}, "priors": {"f": [-0.1, -2.0]}},
        {"query": 1, "right": 1, "scores": {"f": [-0.5, -1.0]}, "priors": {"f": [-2.0, -0.1]}},
    ]
    assert list(table_labels._accuracies([prior, *lines])) == [("f", (0.0, 0.5))]


def test_t_tests_are_scipy_s():
    own, beside = {0: 0.5, 1: 0.75, 2: 0.625}, {0: 0.25, 1: 0.5, 2: 0.5, 3: 1.0}
    classifier, none = Arm(PEERS[0], 1.0), Arm("zero-shot", None, 0)
    arm = Arm(AGGREGATES, 1.0, 4)
    three = [beside[seed] for seed in range(3)]
    welch = compared("people", arm, classifier, own, beside)
    right = ttest_ind(list(own.values()), three, equal_var=False)
    assert (welch.t, welch.p) == (right.statistic, right.pvalue)
    assert (welch.paired, welch.seeds, welch.difference) == (False, 3, pytest.approx(5 / 24))
    paired = compared("people", arm, none, own, beside)
    right = ttest_rel(list(own.values()), three)
    assert (paired.t, paired.p, paired.paired) == (right.statistic, right.pvalue, True)


@pytest.fixture
def kept(tmp_path):
    """A run's folder with given accuracies, by data set and arm."""

    def keep(name, model, epsilons, shares):
        folder = tmp_path / name
        folder.mkdir()
        tasks = list(dict.fromkeys(task for task, _ in shares))
        more = {"groups": "ours", "rates": [], "fresh": False, "peers": True}
        settings = {"model": model, "epsilons": epsilons, "ks": [1], "tasks": tasks, "more": more}
        (folder / "settings.json").write_text(json.dumps(settings))
        lines = [
            {
                "task": one,
                "seed": 0,
                "alone": {a.key: s for (t, a), s in shares.items() if t == one},
            }
            for one in tasks
        ]
        (folder / "shots.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    return keep


def test_the_paper_s_own_test_gives_what_it_prints(kept):
    """Section V-F1 from Table II: k = 1 and epsilon = 1 against each baseline, over all sets."""
    published, printed = PAPERS["DP-TabICL"]["Table II"], PAPERS["DP-TabICL"]["Section V-F1"]
    baselines = dict(zip(PEERS, ("GNB", "LR"), strict=True))
    shares = {}
    for name in PACKAGED:
        shown = name.capitalize()
        shares[name, Arm(BITS, 1.0, 1)] = published.value(f"{shown} LDP k=1", "1")
        for peer, baseline in baselines.items():
            shares[name, Arm(peer, 1.0)] = published.value(f"{shown} {baseline}", "1")
    table = over_tasks(kept("run", "a", [1.0], shares))
    found = {row[3]: (round(float(row[5]), 2), row[6]) for row in table.rows}
    row = "p, one-tailed, k=1, ε=1"
    assert found == {p: (printed.value(row, b), "8") for p, b in baselines.items()}


def test_two_models_are_compared_over_epsilons(kept):
    sizes, epsilons = ("Table II", "Table XII"), ("1", "5", "10", "25", "50")
    figures = [PAPERS["DP-TabICL"][name].rows["Heart LDP k=1"][:5] for name in sizes]
    folders = [
        kept(
            name,
            name,
            [float(one) for one in epsilons],
            {("heart", Arm(BITS, float(e), 1)): s for e, s in zip(epsilons, own, strict=True)},
        )
        for name, own in zip("ab", figures, strict=True)
    ]
    table = between_models(*folders)
    assert table.columns == ("demonstrations", "k", "heart")
    assert table.rows == ((BITS, "1", f"{ttest_rel(*figures).pvalue:.3g}"),)
    with pytest.raises(ConfigurationError, match="the same model"):
        between_models(folders[0], folders[0])


def test_seeds_that_are_all_the_same_have_no_t():
    same = compared(
        "people", Arm(AGGREGATES, 1.0, 4), Arm("zero-shot", None, 0), {0: 1, 1: 1}, {0: 1, 1: 1}
    )
    assert (same.t, same.p, same.difference) == (None, None, 0.0)


def test_one_seed_is_not_tested(run, tmp_path):
    run(TASK, seeds=1)
    assert comparisons(tmp_path / "run") == []


@pytest.mark.parametrize("rate", ["0", "1", "half", "-1", "nan"])
def test_rates_are_checked(rate):
    with pytest.raises(ConfigurationError, match="a rate is a number"):
        More(rates=(rate,))


def test_the_paper_has_rates_of_its_own_data_only():
    assert rate_of("published", "car") == 0.5
    assert rate_of("0.2", "people") == 0.2
    with pytest.raises(ConfigurationError, match="'people'"):
        rate_of("published", "people")


def test_peers_that_cannot_be_imported_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "diffprivlib.models", None)
    with pytest.raises(MissingDependencyError, match="pip install diffprivlib"):
        peer_models()
    with pytest.raises(MissingDependencyError, match="pip install diffprivlib"):
        list(peers(TASK, 1.0))


def test_real_peers_learn():
    """Only where diffprivlib can be imported."""
    pytest.importorskip("diffprivlib.models", exc_type=ImportError)
    for _, predict in peers(TASK, 50.0):
        assert np.mean(predict() == TASK.right) > 0.5
