"""Rows that go on each by itself: greedy, alone or in company the same bits, and as they were."""

import random
from functools import partial

import pytest
import torch

from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.joint_passes import JointPasses
from dpicl_rag.language_models.packed_rows import PackedRows
from dpicl_rag.language_models.sentence_end import Continuation, SentenceEnd
from dpicl_rag.language_models.separate_rows import SeparateRows
from tests.support.tiny_model import build_tiny_model

SUFFIX, MOST = (7, 8, 9), 6


@pytest.fixture(scope="module", params=[0.0, 1.0])
def model(request):
    return copying(build_tiny_model(), request.param)


def inputs(number, seed=0):
    coins = random.Random(seed)
    sizes = (1, 5, 30, 70, 150)
    return [tuple(coins.randrange(200) for _ in range(coins.choice(sizes))) for _ in range(number)]


def all_of(own):
    return [True] * len(own)


def read(model, own):
    return model.read((1, 2, 3), [(4, 5), *own], room=len(SUFFIX) + MOST)


@pytest.mark.one_in(2)
def test_each_says_what_is_likeliest_to_it(model):
    own = inputs(4)
    said = read(model, own).continue_each(SUFFIX, MOST, all_of(own))
    assert len(said) == 4
    for at, one in enumerate(said):
        rows, pending = read(model, own), SUFFIX
        for token, log_prob in zip(one.tokens, one.log_probs, strict=True):
            row = rows.extend(pending).experts[at]
            assert (int(row.argmax()), float(row.max())) == (token, log_prob)
            pending = (token,)


def test_company_moves_no_bit(model):
    own = inputs(20)
    said = read(model, own).continue_each(SUFFIX, MOST, all_of(own))
    for at in (0, 7, 19):
        alone = read(model, [own[at]]).continue_each(SUFFIX, MOST, [True])[0]
        assert alone == said[at]
        assert alone.log_probs == said[at].log_probs
    assert len({one.tokens for one in said}) > 1


def test_rows_stay_as_they_were(model):
    own = inputs(5)
    rows, fresh = read(model, own), read(model, own)
    rows.continue_each(SUFFIX, MOST, all_of(own))
    one, other = rows.extend(SUFFIX), fresh.extend(SUFFIX)
    assert torch.equal(one.rows, other.rows)
    assert torch.equal(one.public, other.public)


class Marks(SentenceEnd):
    """A sentence ends at some tokens of the made-up vocabulary; what is silent is no news."""

    def __init__(self, ends, silent=None):
        super().__init__(frozenset(ends), {}, lambda ids: "")
        self._silent = silent

    def words(self, token_ids):
        if tuple(token_ids) == tuple(SUFFIX):
            return frozenset()
        news = self._silent is None or {*token_ids} - {*self._silent}
        return frozenset(["news"] if news else [])

    def at(self, said, known=frozenset()):
        return next((at for at, token in enumerate(said.tokens) if token in self.tokens), None)


def ending(rows, ends):
    rows._end = Marks(ends)
    return rows


def test_no_sentence_ends_before_it_says_something_new(model):
    own = inputs(9)
    whole = read(model, own).continue_each(SUFFIX, MOST, all_of(own))
    at = next(at for at, one in enumerate(whole) if one.tokens[0] != one.tokens[1])
    first = whole[at].tokens[:2]
    rows = read(model, own)
    rows._end = Marks(first[1:], silent=first[:1])
    held = rows.continue_each(SUFFIX, MOST, all_of(own))[at]
    rows = read(model, own)
    rows._end = Marks(first[1:])
    assert rows.continue_each(SUFFIX, MOST, all_of(own))[at].tokens == first
    assert held.tokens[0] == first[0]
    assert held.tokens[1] != first[1]
    assert len(held.tokens) > 2
    assert held.log_probs[1] < whole[at].log_probs[1]


def test_a_row_whose_sentence_has_ended_is_read_no_further(model, monkeypatch):
    own = inputs(9)
    whole = ending(read(model, own), ()).continue_each(SUFFIX, MOST, all_of(own))
    assert all(len(one.tokens) == MOST for one in whole)
    ends = set()
    for one in whole:
        if sum(not ends & {*other.tokens} for other in whole) > 4:
            ends.add(one.tokens[1])
    going_on = [at for at, one in enumerate(whole) if not ends & {*one.tokens}]
    assert 0 < len(going_on) < 5
    read_on = []
    honest = PackedRows.forward

    def forward(self, token_ids, keep):
        read_on.append(len(self._order))
        return honest(self, token_ids, keep)

    monkeypatch.setattr(PackedRows, "forward", forward)
    short = ending(read(model, own), ends).continue_each(SUFFIX, MOST, all_of(own))
    assert read_on[0] == 10
    assert read_on[-1] <= 5
    for one, other in zip(short, whole, strict=True):
        assert one.tokens == other.tokens[: len(one.tokens)]
        assert one.log_probs == other.log_probs[: len(one.tokens)]
    for at in (going_on[0], 0, 8):
        alone = ending(read(model, [own[at]]), ends).continue_each(SUFFIX, MOST, [True])
        assert alone == [short[at]]


@pytest.mark.parametrize("kind", [PackedRows, SeparateRows])
def test_rows_that_were_left_stand_where_the_others_do(kind):
    model = build_tiny_model()
    own = [(4, 5), *inputs(6)]
    make = partial(model._read, kind, (1, 2, 3), own, len(SUFFIX) + MOST)
    whole = ending(make(), ()).continue_each(SUFFIX, MOST, all_of(own[1:]))
    rows, fresh = ending(make(), {one.tokens[0] for one in whole[:4]}), make()
    rows.continue_each(SUFFIX, MOST, all_of(own[1:]))
    assert torch.equal(rows.extend(SUFFIX).rows, fresh.extend(SUFFIX).rows)


@pytest.mark.one_in(2)
def test_the_end_that_each_finds_is_its_own(model):
    own = inputs(12)
    ends = set(range(0, 200, 7))
    said = ending(read(model, own), ends).continue_each(SUFFIX, MOST, all_of(own))
    for at, one in enumerate(said):
        rows, pending = read(model, own), SUFFIX
        for token, end in zip(one.tokens, one.ends, strict=True):
            row = rows.extend(pending).experts[at]
            assert float(row[sorted(ends)].logsumexp(dim=0)) == end
            pending = (token,)


def test_rows_that_cannot_share_passes_go_on_too():
    model = build_tiny_model()
    own = [(4, 5), *inputs(3)]
    rows = model._read(SeparateRows, (1, 2, 3), own, len(SUFFIX) + MOST)
    packed = read(model, own[1:])
    lone, shared = (one.continue_each(SUFFIX, MOST, [True] * 3) for one in (rows, packed))
    assert [one.tokens for one in lone] == [one.tokens for one in shared]


def test_answers_that_share_passes_keep_every_bit(model):
    questions = [inputs(3, seed=1), inputs(9, seed=2), inputs(1, seed=3)]
    alone = [read(model, own).continue_each(SUFFIX, MOST, all_of(own)) for own in questions]
    joint, found = JointPasses(), {}
    for at, own in enumerate(questions):

        def work(at=at, own=own):
            found[at] = read(model, own).continue_each(SUFFIX, MOST, all_of(own))

        joint.start(work)
    while joint.waiting:
        joint.run_pass()
    assert [found[at] for at in range(3)] == alone


@pytest.mark.parametrize("some", [(1,), (0, 2, 3, 4, 5, 6, 7), ()])
def test_who_is_not_asked_is_not_read(model, monkeypatch, some):
    own = inputs(8)
    whole = read(model, own).continue_each(SUFFIX, MOST, all_of(own))
    rows, fresh = read(model, own), read(model, own)
    said = rows.continue_each(SUFFIX, MOST, [at in some for at in range(8)])
    for at, one in enumerate(said):
        assert one == (whole[at] if at in some else Continuation((), ()))
    assert torch.equal(rows.extend(SUFFIX).rows, fresh.extend(SUFFIX).rows)
