"""Rows that go on each by itself: greedy, alone or in company the same bits, and as they were."""

import random

import pytest
import torch

from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.joint_passes import JointPasses
from dpicl_rag.language_models.lone_rows import LoneRows
from tests.support.tiny_model import build_tiny_model

SUFFIX, MOST = (7, 8, 9), 6


@pytest.fixture(scope="module", params=[0.0, 1.0])
def model(request):
    return copying(build_tiny_model(), request.param)


def inputs(number, seed=0):
    coins = random.Random(seed)
    sizes = (1, 5, 30, 70, 150)
    return [tuple(coins.randrange(200) for _ in range(coins.choice(sizes))) for _ in range(number)]


def read(model, own):
    return model.read((1, 2, 3), [(4, 5), *own], room=len(SUFFIX) + MOST)


def test_each_says_what_is_likeliest_to_it(model):
    own = inputs(4)
    said = read(model, own).continue_each(SUFFIX, MOST)
    assert len(said) == 4
    for at, one in enumerate(said):
        rows, pending = read(model, own), SUFFIX
        for token, log_prob in zip(one.tokens, one.log_probs, strict=True):
            row = rows.extend(pending).experts[at]
            assert (int(row.argmax()), float(row.max())) == (token, log_prob)
            pending = (token,)


def test_company_moves_no_bit(model):
    own = inputs(20)
    said = read(model, own).continue_each(SUFFIX, MOST)
    for at in (0, 7, 19):
        alone = read(model, [own[at]]).continue_each(SUFFIX, MOST)[0]
        assert alone == said[at]
        assert alone.log_probs == said[at].log_probs
    assert len({one.tokens for one in said}) > 1


def test_rows_stay_as_they_were(model):
    own = inputs(5)
    rows, fresh = read(model, own), read(model, own)
    rows.continue_each(SUFFIX, MOST)
    one, other = rows.extend(SUFFIX), fresh.extend(SUFFIX)
    assert torch.equal(one.rows, other.rows)
    assert torch.equal(one.public, other.public)


def test_the_number_of_passes_is_public(model, monkeypatch):
    passes = []
    rows = read(model, inputs(3))
    honest = rows._batch.forward

    def forward(token_ids, keep):
        passes.append(keep)
        return honest(token_ids, keep)

    monkeypatch.setattr(rows._batch, "forward", forward)
    rows.continue_each(SUFFIX, MOST)
    assert len(passes) == MOST


def test_rows_that_cannot_share_passes_go_on_too():
    model = build_tiny_model()
    own = [(4, 5), *inputs(3)]
    rows = model._read(LoneRows, (1, 2, 3), own, len(SUFFIX) + MOST)
    packed = read(model, own[1:])
    lone, shared = (one.continue_each(SUFFIX, MOST) for one in (rows, packed))
    assert [one.tokens for one in lone] == [one.tokens for one in shared]


def test_answers_that_share_passes_keep_every_bit(model):
    questions = [inputs(3, seed=1), inputs(9, seed=2), inputs(1, seed=3)]
    alone = [read(model, own).continue_each(SUFFIX, MOST) for own in questions]
    joint, found = JointPasses(), {}
    for at, own in enumerate(questions):

        def work(at=at, own=own):
            found[at] = read(model, own).continue_each(SUFFIX, MOST)

        joint.start(work)
    while joint.waiting:
        joint.run_pass()
    assert [found[at] for at in range(3)] == alone
