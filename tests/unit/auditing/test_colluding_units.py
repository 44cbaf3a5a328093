"""Units that want something said: one of them is not heard, many are, and faults are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpicl_rag import Rehearsal
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.accounting.stability import DIRECT
from dpicl_rag.answering import private_run
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.auditing import AuditReport, Subject, SyntheticModel, audit_agreement
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.mechanisms import private_counts as mechanism
from dpicl_rag.mechanisms.private_counts import Agreement

MODEL = SyntheticModel(4, lambda text, history: [0.0] * 4)


PRIVACY = Path(__file__).parents[3] / "docs" / "privacy.md"


def audit(runs=8, colluding=(1, 40), **settings):
    subject = Subject(MODEL, "Which codes are known?", {"epsilon": 8.0, **settings})
    return audit_agreement(subject, runs=runs, colluding=colluding)


@pytest.mark.parametrize("accounting", ["individual", "fixed"])
def test_one_that_shouts_is_not_heard_and_many_are(accounting):
    found = audit(accounting=accounting)
    assert found.holds
    assert found.released == {1: 0.0, 40: 1.0}
    assert (found.lower_bound, found.delta) == (0.0, 5e-6)


def test_settings_of_the_subject_are_those_of_the_attack():
    assert audit(epsilon=0.5, colluding=(1, 10)).released[10] < 0.5
    assert audit(groups=4, accounting="fixed", colluding=(1,)).holds


@pytest.fixture
def several_keys(monkeypatch):
    """The question asks for a list, and the model can be silent: three keys a unit."""
    knows = Rehearsal(told=10, right=10, right_by_default=10, far=10, silent=10)
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: knows)


@pytest.mark.usefixtures("several_keys")
def test_of_units_with_several_keys_one_is_not_heard_and_many_are(monkeypatch):
    drawn, draw = set(), Agreement.draw
    monkeypatch.setattr(
        Agreement,
        "draw",
        lambda self, *given: drawn.add((self.keys, self.parts)) or draw(self, *given),
    )
    found = audit()
    assert drawn == {(3, 6)}
    assert found.holds
    assert found.released == {1: 0.0, 40: 1.0}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("epsilon", [8, 4, 2, 1])
@pytest.mark.parametrize("booked", [False, True])
def test_so_many_colluding_units_are_heard(epsilon, booked):
    """The table of docs/privacy.md: the threshold, and how many are heard nine times in ten."""
    rows = [line.strip("| ").split(" | ") for line in PRIVACY.read_text("utf-8").splitlines()]
    [head] = [row for row in rows if row[0] == "units that collude"]
    at = head.index(f"epsilon {epsilon}")
    config = PrivacyConfig.create(epsilon=float(epsilon), agreement="only")
    search = SHARES.counting(SHARES.search_before_counts * config.rho(booked=booked))
    for keys, asked in ((1, "one key"), (2, "a reason, 2 keys"), (3, "a list, 3 keys")):
        plan = answer_plan(config, DIRECT, search, 0, booked=booked, keys=keys)
        name = f"{asked}, under a ledger" if booked else asked
        [told] = [row for row in rows if row[0] == name]
        assert told[at] == f"{plan.thresholds[-1]} / {plan.ladder.units}", name


@pytest.mark.parametrize("path", ["one key", "several keys"])
def test_a_threshold_of_one_is_found(monkeypatch, request, path):
    if path == "several keys":
        request.getfixturevalue("several_keys")
    within = Agreement.within

    def low(*arguments, **more):
        return replace(within(*arguments, **more), threshold=1)

    monkeypatch.setattr(Agreement, "within", staticmethod(low))
    found = audit(colluding=(1,))
    assert not found.holds
    assert found.lower_bound > found.delta


def test_a_unit_that_is_counted_for_each_passage_is_found(monkeypatch):
    draw = Agreement.draw

    def shouted(self, keys, randomness):
        return draw(self, [key for key in keys for _ in range(40)], randomness)

    monkeypatch.setattr(Agreement, "draw", shouted)
    assert not audit(colluding=(1,)).holds


def test_a_count_without_noise_is_told(monkeypatch):
    monkeypatch.setattr(mechanism.DiscreteGaussian, "draw", lambda *_: 0)
    assert audit(runs=2, colluding=(1, 5, 40)).released == {1: 0.0, 5: 1.0, 40: 1.0}


def test_the_report_says_it_in_words_and_numbers():
    report = AuditReport(agreement=audit(colluding=(1, 40)))
    assert "1: 0%, 40: 100%" in report.text()
    figures = report.summary()
    assert figures["agreement_of_colluding_units"] == {"1": 0.0, "40": 1.0}
    assert figures["agreement_lower_bound"] == 0.0
