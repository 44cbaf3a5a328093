"""The text of a synthetic corpus, enumerated exactly over neighbouring corpora."""

from __future__ import annotations

import itertools
import math
from contextlib import nullcontext
from typing import ClassVar

import pytest
import torch

from dpicl_rag.documents import Document
from dpicl_rag.ledger import Account
from dpicl_rag.mechanisms.privacy_filters import privacy_filter
from dpicl_rag.synthesis import key_words, synthesis_run
from dpicl_rag.synthesis import synthetic_corpus as room
from dpicl_rag.synthesis.synthetic_corpus import synthesise
from tests.support.synthesising import Following, prepared_run, short_plan, worst_model

ORDERS = (1.01, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
ROUNDING = 1e-9
SIZE = 3
WORDS = ("alpha", "betas")


def unit(name: str, words: str, says: str) -> Document:
    """A document that joins the topics of its words, and pushes a token."""
    return Document(f"about {words}\n{says}", name)


def draw(monkeypatch, plan, documents, path, keys=WORDS, size=SIZE):
    """Log-distributions of every token of a synthesis that draws a path."""
    run = prepared_run(plan, [(word, 1) for word in keys])
    monkeypatch.setattr(synthesis_run, "open_run", lambda folder, kept: nullcontext(run))
    coins = Following(path)
    synthesise(documents, plan, model=worst_model(size), randomness=coins)
    return coins.log_probs


def distribution(monkeypatch, plan, documents, tokens, size=SIZE):
    """Log-probability of every output of a synthesis, float64 [size^tokens]."""
    found = []
    for path in itertools.product(range(size), repeat=tokens):
        steps = draw(monkeypatch, plan, documents, path, size=size)
        assert len(steps) == tokens
        found.append(sum(float(step[token]) for step, token in zip(steps, path, strict=True)))
    log_p = torch.tensor(found, dtype=torch.float64)
    assert float(log_p.exp().sum()) == pytest.approx(1.0)
    return log_p


def renyi(log_p: torch.Tensor, log_q: torch.Tensor, order: float) -> float:
    return float(torch.logsumexp(order * log_p + (1 - order) * log_q, dim=0)) / (order - 1)


def share_of_charge(log_p, log_q, rho):
    """The largest part of ``order * rho`` that any order uses, either way round."""
    return max(
        renyi(one, other, order) / (order * rho)
        for order in ORDERS
        for one, other in ((log_p, log_q), (log_q, log_p))
    )


AROUND = [unit("u1", "alpha", "token 1"), unit("u2", "alpha betas", "even")]
NEWCOMERS = [
    unit("new", "alpha betas", "token 0"),
    unit("new", "alpha betas", "turn 1"),
    unit("new", "betas", "token 2"),
    unit("new", "alpha", "even"),
    unit("new", "other", "token 0"),
]
PLAN = short_plan(2, topics_per_unit=2)
TOKENS = 4  # two records of two


class TestNeighbours:
    """Two records of two tokens over three candidates: 81 outputs."""

    seen: ClassVar[dict[int, torch.Tensor]] = {}

    def without(self, monkeypatch, around):
        """The distribution of a corpus, which is the same in every test."""
        if len(around) not in self.seen:
            self.seen[len(around)] = distribution(monkeypatch, PLAN, around, TOKENS)
        return self.seen[len(around)]

    @pytest.mark.heavy
    @pytest.mark.parametrize("newcomer", NEWCOMERS, ids=lambda d: d.text.replace("\n", " "))
    def test_a_unit_more_or_fewer_stays_within_the_charge(self, monkeypatch, newcomer):
        text_rho = PLAN.rho - PLAN.keys_rho
        for around in ([], AROUND):
            without = self.without(monkeypatch, around)
            with_it = distribution(monkeypatch, PLAN, [newcomer, *around], TOKENS)
            assert share_of_charge(with_it, without, text_rho) <= 1 + ROUNDING

    @pytest.mark.heavy
    def test_another_unit_in_its_place_stays_within_twice_the_way(self, monkeypatch):
        """A replacement is a removal and an arrival: distances add, so rho is four times."""
        text_rho = PLAN.rho - PLAN.keys_rho
        log_ps = [
            distribution(monkeypatch, PLAN, [d, *AROUND], TOKENS)
            for d in (NEWCOMERS[0], NEWCOMERS[2])
        ]
        for one, other in itertools.combinations(log_ps, 2):
            assert share_of_charge(one, other, 4 * text_rho) <= 1 + ROUNDING

    @pytest.mark.heavy
    def test_what_joins_no_topic_moves_nothing(self, monkeypatch):
        without = self.without(monkeypatch, AROUND)
        stranger = distribution(monkeypatch, PLAN, [NEWCOMERS[-1], *AROUND], TOKENS)
        assert torch.equal(without, stranger)

    def test_two_fields_are_charged_like_one(self, monkeypatch):
        plan = short_plan(2, fields=2, topics_per_unit=1)
        for newcomer in NEWCOMERS[:2]:
            log_p = [
                self.fields(monkeypatch, plan, documents)
                for documents in ([newcomer, *AROUND], AROUND)
            ]
            assert share_of_charge(*log_p, plan.rho - plan.keys_rho) <= 1 + ROUNDING

    def fields(self, monkeypatch, plan, documents):
        """One record of two fields of two tokens, over two candidates."""
        found = []
        for path in itertools.product(range(2), repeat=4):
            steps = draw(monkeypatch, plan, documents, path, keys=WORDS[:1], size=2)
            found.append(sum(float(s[t]) for s, t in zip(steps, path, strict=True)))
        return torch.tensor(found, dtype=torch.float64)


LONG = 40


def long_divergence(monkeypatch, plan, keys, order=1.01):
    """Divergence of long records, per order: draws that do not depend on each other add up.

    The newcomer turns with the place and the public row finds both tokens alike, so every path has
    the same distributions, and the divergences of the places add up.
    """
    newcomer = unit("new", " ".join(keys), "turn 0")
    tokens = LONG * len(keys)
    path = [0] * tokens
    one = draw(monkeypatch, plan, [newcomer], path, keys, size=2)
    other = draw(monkeypatch, plan, [], path, keys, size=2)
    return sum(renyi(p, q, order) for p, q in zip(one, other, strict=True)) / order


def test_long_records_use_their_cap_and_no_more(monkeypatch):
    plan = short_plan(LONG, topics_per_unit=2)
    keys = ("alpha", "betas", "gamma")  # it joins two of them
    used = long_divergence(monkeypatch, plan, keys) / (2 * plan.record_rho)
    assert 0.9 < used <= 1 + ROUNDING


class TestPlantedFaults:
    """Each must break the test above."""

    def test_the_cap_of_a_record_ignored_is_seen(self, monkeypatch):
        def endless(account, places, worst, *, most):
            account._left = [math.inf] * len(account._left)
            return privacy_filter(account, places, worst, most=1e6)

        monkeypatch.setattr(room, "privacy_filter", endless)
        with pytest.raises(AssertionError):
            test_long_records_use_their_cap_and_no_more(monkeypatch)

    def test_more_topics_than_asked_are_seen(self, monkeypatch):
        monkeypatch.setattr(
            room, "joined", lambda words, topics, most: key_words.joined(words, topics, 9)
        )
        # Nor does what a unit has left for the whole run hold it back.
        monkeypatch.setattr(room._Keys, "rho_left", lambda self: 9 * self.plan.record_rho)
        with pytest.raises(AssertionError):
            test_long_records_use_their_cap_and_no_more(monkeypatch)

    @pytest.mark.heavy
    def test_batches_by_order_are_seen(self, monkeypatch):
        """A newcomer that shifts others changes records that it is not in."""

        def by_order(run_key, unit, word, batches):
            return ORDER.index(unit) % 2

        ORDER = ["u1", "u2"]
        monkeypatch.setattr(room, "batch_of", by_order)
        without = distribution(monkeypatch, PLAN, AROUND, TOKENS)
        ORDER[:] = ["new", "u1", "u2"]
        stranger = distribution(monkeypatch, PLAN, [NEWCOMERS[-1], *AROUND], TOKENS)
        assert not torch.equal(without, stranger)


def test_a_unit_with_little_left_says_little(monkeypatch):
    """What the ledger leaves a unit bounds it, below the cap of a record."""
    plan = short_plan(LONG, topics_per_unit=1)
    original = Account.__init__

    def poor(self, rho, units, reservation=None, **kind):
        original(self, 0.01, units, reservation, **kind)

    monkeypatch.setattr(Account, "__init__", poor)
    assert long_divergence(monkeypatch, plan, ("alpha",)) <= 0.01 * (1 + ROUNDING)
