"""Planted faults: variants of the private path, broken in one place, that audits must catch."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from dpicl_rag.accounting.stability import Stability
from dpicl_rag.answering import experts
from dpicl_rag.answering.experts import Expert
from dpicl_rag.auditing import (
    Subject,
    SyntheticModel,
    audit_canary,
    audit_neighbours,
    audit_synthetic,
)
from dpicl_rag.auditing.worst_models import worst_speech
from dpicl_rag.documents import Document
from dpicl_rag.mechanisms.privacy_filters import FixedFilter, IndividualFilter
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.retrieval.base import ExactRetriever, unit_key

SIZE = 16
SETTINGS = {"max_tokens": 4, "utility": "log_prob", "epsilon": 2.0}


def subject(**settings) -> Subject:
    return Subject(
        SyntheticModel(SIZE, worst_speech(SIZE)), "Which token?", {**SETTINGS, **settings}
    )


@pytest.mark.one_in(9)
@pytest.mark.parametrize("accounting", ["fixed", "individual"])
@pytest.mark.parametrize("utility", ["log_prob", "log_ratio", "surplus", "vote"])
def test_the_real_path_holds_and_its_charge_is_used_up(utility, accounting):
    found = audit_synthetic(subject(utility=utility, accounting=accounting, max_tokens=16))
    assert found.holds
    assert found.usage > 0.85
    assert 0.0 < found.worst_epsilon <= found.claimed_epsilon


@pytest.mark.heavy
@pytest.mark.parametrize("settings", [{"adjacency": "replace_one"}, {"groups": 2}])
def test_the_real_path_holds_for_changed_experts(settings):
    found = audit_synthetic(subject(**settings))
    assert found.holds
    assert found.usage > 0.2


def test_the_real_path_holds_for_labels():
    labelled = Subject(subject().model, "Which?", {"epsilon": 1.0}, labels=("yes", "no", "maybe"))
    found = audit_synthetic(labelled)
    assert found.holds
    assert found.delta == 0.0
    assert 0.5 < found.worst_epsilon <= 1.0 + 1e-9


def test_a_factor_of_two(monkeypatch):
    honest = Stability.factor
    monkeypatch.setattr(
        Stability, "factor", lambda self, adjacency: max(1, honest(self, adjacency) // 2)
    )
    found = audit_synthetic(subject(adjacency="replace_one"))
    assert not found.holds
    assert found.usage > 3.9  # rho goes with the square


@pytest.mark.heavy
def test_a_factor_of_two_in_what_units_pay(monkeypatch):
    honest = IndividualFilter.charge
    monkeypatch.setattr(IndividualFilter, "charge", lambda self, ranges: honest(self, ranges / 2))
    found = audit_synthetic(subject(accounting="individual", max_tokens=16))
    assert not found.holds


@pytest.mark.heavy
def test_top_k_after_aggregation(monkeypatch):
    honest = ExponentialMechanism.scores

    def cut(self, step, weights=None):
        scores = honest(self, step, weights)
        return torch.where(scores >= scores.topk(3).values[-1], scores, -torch.inf)

    monkeypatch.setattr(ExponentialMechanism, "scores", cut)
    found = audit_synthetic(subject())
    assert not found.holds
    assert found.usage == math.inf
    assert found.worst_epsilon == math.inf


def test_groups_by_rank(monkeypatch):
    def by_rank(units, groups, randomness):
        ranked = sorted(units, key=lambda expert: expert.units)
        size = -(-len(ranked) // groups)
        parts = [ranked[at * size : (at + 1) * size] for at in range(groups)]
        return [
            Expert(
                tuple(unit for expert in part for unit in expert.units),
                tuple(text for expert in part for text in expert.passages),
            )
            for part in parts
        ]

    # A group says what its last member says: without the first unit, all say something else.
    corpus = [Document(f"token {n % 2}", f"unit-{n}") for n in range(6)]
    audited = subject(groups=3)
    assert audit_neighbours(audited, corpus, additions=(), tokens=2).holds
    monkeypatch.setattr(experts, "random_groups", by_rank)
    found = audit_neighbours(audited, corpus, additions=(), tokens=2)
    assert not found.holds
    assert found.usage > 2


def test_a_forgotten_charge(monkeypatch):
    honest = FixedFilter.pay

    def forgetful(self):
        # A token in every four goes unpaid.
        self.seen = getattr(self, "seen", -1) + 1
        if self.seen % 4:
            honest(self)

    monkeypatch.setattr(FixedFilter, "pay", forgetful)
    found = audit_synthetic(subject(accounting="fixed"))
    assert not found.holds
    assert found.usage == pytest.approx(4 / 3, rel=1e-3)


@pytest.mark.heavy
def test_a_forgotten_charge_of_a_unit(monkeypatch):
    honest = IndividualFilter.charge

    def forgetful(self, ranges):
        self.seen = getattr(self, "seen", -1) + 1
        return honest(self, ranges if self.seen % 4 else 0 * ranges)

    monkeypatch.setattr(IndividualFilter, "charge", forgetful)
    assert not audit_synthetic(subject(accounting="individual", max_tokens=16)).holds


class GraphIndex(ExactRetriever):
    """A navigable graph as in HNSW: points link to those near them when they arrive, and a search
    walks downhill with a short list. The arrival of a point reroutes it for the others."""

    stability = Stability(added=1, changed=0)  # what it is charged as

    def __init__(self, corpus, links: int = 2, width: int = 2) -> None:
        self.corpus = sorted(corpus, key=lambda document: unit_key(document.unit))
        self.points = [np.array(eval(d.metadata["at"])) for d in self.corpus]
        self.width = width
        self.links: dict[int, set[int]] = {}
        for new in range(len(self.points)):
            near = sorted(self.links, key=lambda old: self.distance(old, self.points[new]))[:links]
            self.links[new] = set(near)
            for old in near:
                kept = sorted(
                    {*self.links[old], new}, key=lambda at: self.distance(at, self.points[old])
                )
                self.links[old] = set(kept[: links + 1])

    def distance(self, at: int, point) -> float:
        return float(np.linalg.norm(self.points[at] - point))

    def retrieve(self, question: str) -> list[Document]:
        origin = np.zeros(2)
        seen, best = {0}, [0]
        while True:
            reach = {n for at in best for n in self.links[at]} - seen
            seen |= reach
            ahead = sorted({*best, *reach}, key=lambda at: self.distance(at, origin))[: self.width]
            if ahead == best:
                break
            best = ahead
        return [self.corpus[at] for at in sorted(seen) if self.distance(at, origin) < 1.5]


class ExactScan(GraphIndex):
    """The same threshold over all points."""

    def retrieve(self, question: str) -> list[Document]:
        near = (at for at in range(len(self.corpus)) if self.distance(at, np.zeros(2)) < 1.5)
        return [self.corpus[at] for at in near]


def test_an_approximate_index():
    places = np.random.default_rng(2).normal(scale=1.5, size=(24, 2))
    corpus = [
        Document(f"token {n % SIZE}", f"unit-{n}", {"at": repr(place.tolist())})
        for n, place in enumerate(places)
    ]

    def audited(index) -> Subject:
        model, settings = SyntheticModel(SIZE, worst_speech(SIZE)), {**SETTINGS, "agreement": "off"}
        return Subject(model, "Which?", settings, pipeline=index)

    exact = audit_neighbours(audited(ExactScan), corpus, additions=(), tokens=2, expansions=1)
    assert exact.holds
    found = audit_neighbours(audited(GraphIndex), corpus, additions=(), tokens=2, expansions=1)
    assert not found.holds
    assert found.usage > 3


@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
@pytest.mark.heavy
def test_a_seeded_generator():
    """Whoever knows the seed reads the documents off the draws, at any epsilon."""
    corpus = [Document("token 1", "a")]
    canary = Document("turn 2", "canary")

    def found(seed):
        audited = subject(epsilon=1.0, max_tokens=12, accounting="fixed", seed=seed)
        return audit_canary(audited, corpus, canary, runs=40)

    # An attacker may take any seed at which the answers differ; most do.
    bounds = [found(seed) for seed in (1, 2, 3)]
    assert not all(bound.holds for bound in bounds)
    assert found(None).holds


@pytest.mark.heavy
def test_a_factor_of_two_shows_in_answers_alone(monkeypatch):
    """Not seeded: the bound expected is 1.28 with a deviation of 0.06, above a claim of 1."""
    labelled = Subject(
        SyntheticModel(2, worst_speech(2)),
        "Which?",
        {"epsilon": 1.0, "accounting": "fixed", "clip": 40.0},
        labels=("a", "b"),
    )
    canary = Document("token 0", "canary")
    assert audit_canary(labelled, [], canary, runs=400).holds
    honest = ExponentialMechanism.scores
    monkeypatch.setattr(
        ExponentialMechanism,
        "scores",
        lambda self, step, weights=None: honest(
            dataclasses.replace(self, strength=2 * self.strength), step, weights
        ),
    )
    found = audit_canary(labelled, [], canary, runs=3000)
    assert not found.holds
    assert found.lower_bound < 2.0
