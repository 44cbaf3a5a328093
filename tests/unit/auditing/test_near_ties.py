"""Planted near-ties tip wherever a row moves with its company, and nowhere else."""

from __future__ import annotations

import math

import pytest
import torch

from dpicl_rag.auditing import Subject, SyntheticModel, audit_near_ties
from dpicl_rag.auditing import near_ties as auditing
from dpicl_rag.auditing.near_ties import AttackName, exact_rho
from dpicl_rag.auditing.neighbours import TOLERANCE
from dpicl_rag.configuration import MethodName, UtilityName
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models import attention
from dpicl_rag.language_models.attention_products import weights_of
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.mechanisms.step import DenseStep
from tests.support.tiny_model import build_tiny_model

COPIES = 16
FEW = 4
SIZE = 8


def nearly_equal(text, history):
    """All tokens are a few units in the last place of each other."""
    return [1e-6 * math.sin(3.0 * token) for token in range(SIZE)]


class Moved(SyntheticModel):
    """An engine whose rows move by 1e-6 with their company."""

    def read(self, prefix, inputs, *, room, on_progress=None):
        rows = super().read(prefix, inputs, room=room)
        longest = max(map(len, inputs[1:]), default=0)

        def moved(step):
            noise = torch.Generator().manual_seed(longest)
            shift = 1e-6 * torch.randn(step.public.shape, generator=noise)
            return DenseStep(step.public, step.experts + shift.to(step.experts.dtype))

        extend, score = rows.extend, rows.score
        rows.extend = lambda token_ids: moved(extend(token_ids))
        rows.score = lambda continuations: moved(score(continuations))
        return rows


def subject(model, **settings):
    return Subject(model, "Which?", {"epsilon": 1.0, "utility": "vote", **settings})


def test_an_engine_of_exact_rows_holds_in_every_way():
    seen = []
    found = audit_near_ties(
        subject(SyntheticModel(SIZE, nearly_equal)),
        copies=COPIES,
        on_progress=lambda *at: seen.append(at),
    )
    assert found.holds
    # Nothing is kept of a model that is not one of transformers.
    assert {one.attack for one in found.findings} == {"a newcomer", "a joined row"}
    assert found.used("kept rows") is None
    ways = 2 * len(UtilityName.__args__) + len(MethodName.__args__)
    assert len(found.findings) == 2 * ways
    # The newcomer's own vote, and nothing else.
    assert found.worst.usage == pytest.approx(1.0)
    assert seen[-1][0] == seen[-1][1]
    assert seen == sorted(seen)


def test_rows_that_move_with_their_company_are_seen_in_every_vote():
    found = audit_near_ties(subject(Moved(SIZE, nearly_equal)), copies=COPIES)
    assert not found.holds
    by_name = {one.name: one for one in found.findings if one.attack == "a newcomer"}
    # All copies tip: as many votes as there are copies.
    assert by_name["label by vote"].worst_epsilon > COPIES / 4
    for name in ("votes", "votes-gaussian", "permute-and-flip-votes"):
        assert by_name[f"label by method {name}"].usage > COPIES / 4
    assert by_name["label by surplus"].usage < 1
    assert found.worst.usage > 1


def near_ties(**shape):
    """A model whose letters say nearly the same: they tip together where rows move by rounding."""
    model = build_tiny_model(**shape)
    letters = model.tokenizer.encode("abcdefghijklmnopqrstuvwxyz")
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        weight = model._model.lm_head.weight
        noise_of = 3e-7 * torch.randn(len(letters), weight.shape[1], generator=noise)
        weight[letters] = weight[letters[0]] * (1 + noise_of)
    return model


@pytest.fixture
def threads(request):
    """How many threads torch computes with."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


# Products whose order of additions follows from the number of threads, and groups of one matrix.
SHAPES = {
    "two key heads": {"hidden_size": 128, "intermediate_size": 1024},
    "one key head": {
        "hidden_size": 64,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": 256,
    },
}


@pytest.mark.heavy
@pytest.mark.parametrize("threads", [1, 4], indirect=True)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_model_of_transformers_holds(shape, threads):
    found = audit_near_ties(subject(near_ties(**SHAPES[shape])), copies=COPIES)
    assert found.holds
    for attack in AttackName.__args__:
        assert 0.9 < found.used(attack) <= 1.0 + TOLERANCE


def by_threads(model):
    """A model whose products follow from the number of threads, as on some processors."""
    for layer in model._model.model.layers:
        layer.mlp.register_forward_hook(
            lambda module, given, found: found * (1 + 1e-5 * torch.get_num_threads())
        )
    return model


@pytest.fixture
def one_pair(request, monkeypatch):
    """One attack on one text of one length, and labels by votes alone: enough to see a fault."""
    every_attack, every_way = auditing.every_attack, auditing._every_way

    def attacked(*given):
        return (one for one in every_attack(*given) if one[0] == request.param)

    def voted(*given):
        ways = ("label by vote", "label by method permute-and-flip-votes")
        return [way for way in every_way(*given) if way[0] in ways]

    monkeypatch.setattr(auditing, "every_attack", attacked)
    monkeypatch.setattr(auditing, "_every_way", voted)
    monkeypatch.setattr(auditing, "_TEXTS", auditing._TEXTS[:1])
    monkeypatch.setattr(auditing, "_LENGTHS", auditing._LENGTHS[1:2])
    return request.param


@pytest.mark.one_in(3)
@pytest.mark.parametrize("one_pair", AttackName.__args__, indirect=True)
@pytest.mark.parametrize("threads", [1], indirect=True)
def test_a_pair_of_transformers_holds(one_pair, threads):
    found = audit_near_ties(subject(near_ties()), copies=FEW)
    assert found.holds
    assert 0.9 < found.used(one_pair) <= 1.0 + TOLERANCE


@pytest.mark.heavy
@pytest.mark.parametrize("planted", [False, True])
@pytest.mark.parametrize("one_pair", ["kept rows"], indirect=True)
@pytest.mark.parametrize("threads", [1], indirect=True)
def test_one_row_kept_from_other_threads_is_seen(threads, one_pair, planted, monkeypatch):
    """Planted: what is kept is found by tokens and weights alone."""
    if planted:
        monkeypatch.setattr(TransformersModel, "_here", lambda self, cache=None: "anywhere")
    found = audit_near_ties(subject(by_threads(near_ties())), copies=FEW)
    assert found.holds is not planted
    if planted:
        assert all(one.worst_epsilon > FEW / 4 for one in found.findings)


@pytest.mark.heavy
@pytest.mark.parametrize("planted", [False, True])
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
def test_rows_kept_from_other_threads_are_seen(threads, planted, monkeypatch):
    """Planted: what is kept is found by tokens and weights alone."""
    if planted:
        monkeypatch.setattr(TransformersModel, "_here", lambda self, cache=None: "anywhere")
    found = audit_near_ties(
        subject(by_threads(near_ties(**SHAPES["two key heads"]))), copies=COPIES
    )
    assert found.holds is not planted
    if planted:
        assert found.worst.attack == "kept rows"
        by_name = {one.name: one for one in found.findings if one.attack == "kept rows"}
        for name in ("label by vote", "label by method votes"):
            assert by_name[name].worst_epsilon > COPIES / 4


@pytest.fixture
def by_company(monkeypatch):
    """Products that follow from whether a matrix is alone in its group, as on some processors."""

    def by_size(scores, mask, options):
        return weights_of(scores * (1 + 1e-4) if len(scores) == 1 else scores, mask, options)

    monkeypatch.setattr(attention, "weights_of", by_size)


def plant_single_matrices(monkeypatch):
    """A planted fault: groups of a single matrix."""
    monkeypatch.setattr(attention, "filled", lambda count, rows: rows)
    monkeypatch.setattr(TransformersModel, "shares_passes", lambda self: True)


@pytest.mark.heavy
@pytest.mark.usefixtures("by_company")
@pytest.mark.parametrize("planted", [False, True])
@pytest.mark.parametrize("one_pair", ["a joined row"], indirect=True)
@pytest.mark.parametrize("threads", [1], indirect=True)
def test_one_row_that_was_alone_is_seen_to_move(threads, one_pair, planted, monkeypatch):
    if planted:
        plant_single_matrices(monkeypatch)
    found = audit_near_ties(subject(near_ties(**SHAPES["one key head"])), copies=FEW)
    assert (found.worst.usage > 1.2) is planted


@pytest.mark.heavy
@pytest.mark.usefixtures("by_company")
@pytest.mark.parametrize("planted", [False, True])
@pytest.mark.parametrize("threads", [2], indirect=True)
def test_a_row_that_was_alone_is_seen_to_move_in_every_way(threads, planted, monkeypatch):
    if planted:
        plant_single_matrices(monkeypatch)
    found = audit_near_ties(subject(near_ties(**SHAPES["one key head"])), copies=4)
    assert (found.used("a joined row") > 1.2) is planted


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_exact_rho_of_randomised_response(epsilon):
    """The ratio is the largest at order 1: the divergence of Kullback and Leibler."""
    yes = torch.tensor([1.0, math.exp(epsilon)], dtype=torch.float64)
    log_p = (yes / yes.sum()).log()
    expected = epsilon * math.tanh(epsilon / 2)
    assert exact_rho(log_p, log_p.flip(0)) == pytest.approx(expected, rel=0.01)
    assert exact_rho(log_p, log_p) == pytest.approx(0.0, abs=1e-12)


def test_an_outcome_of_one_side_only_has_no_bound():
    certain = torch.tensor([0.0, -math.inf], dtype=torch.float64)
    assert exact_rho(certain, torch.tensor([0.5, 0.5]).double().log()) == math.inf
    assert exact_rho(certain, certain) == 0.0


def test_a_model_without_labels_is_told():
    with pytest.raises(ConfigurationError, match="two tokens"):
        audit_near_ties(subject(SyntheticModel(1, lambda text, history: [0.0])), copies=2)
