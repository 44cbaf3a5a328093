"""What is not shown: bounded by what is, and never impossible."""

from __future__ import annotations

import math

import pytest
import torch

from dpicl_rag.language_models.openai_compatible.server_rows import expert_rows, public_row
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import LogProb, LogRatio, Sufficient, Surplus, Vote

SIZE = 300


def some_rows(count: int, seed: int = 0) -> torch.Tensor:
    coins = torch.Generator().manual_seed(seed)
    return torch.log_softmax(5 * torch.randn(count, SIZE, generator=coins), dim=-1)


def top(row: torch.Tensor, count: int) -> dict[int, float]:
    values, ids = row.topk(count)
    return dict(zip(ids.tolist(), values.tolist(), strict=True))


def test_whole_rows_come_through_bit_for_bit():
    whole = some_rows(3)
    public = public_row(top(whole[0], SIZE), SIZE)
    assert torch.equal(public, whole[0])
    shown = [top(row, SIZE) for row in whole[1:]]
    assert torch.equal(expert_rows(shown, public), whole[1:])


@pytest.mark.parametrize("count", [1, 5, 20, 299])
def test_the_public_row_shares_what_is_left_over_evenly(count):
    [whole] = some_rows(1)
    found = public_row(top(whole, count), SIZE)
    assert found.dtype == torch.float32
    assert float(found.double().exp().sum()) == pytest.approx(1.0, abs=1e-5)
    order = whole.argsort(descending=True)
    assert torch.equal(found[order[:count]], whole[order[:count]])
    rest = found[order[count:]]
    assert len(rest.unique()) == 1
    assert float(rest[0]) <= float(whole[order[count - 1]]) + 1e-6


@pytest.mark.parametrize("count", [1, 5, 20])
def test_an_expert_gives_the_rest_no_more_than_the_least_it_shows(count):
    whole = some_rows(12)
    public = public_row(top(whole[0], 50), SIZE)
    found = expert_rows([top(row, count) for row in whole[1:]], public)
    assert found.isfinite().all()
    for row, own in zip(found, whole[1:], strict=True):
        order = own.argsort(descending=True)
        assert torch.equal(row[order[:count]], own[order[:count]])
        assert float(row[order[count:]].max()) <= float(own[order[count - 1]])
        # Less than all, where the bound took some away.
        assert float(row.double().exp().sum()) <= 1 + 1e-5


def test_a_row_follows_from_its_own_prompt_and_the_public_row_bit_for_bit():
    whole = some_rows(80)
    public = public_row(top(whole[0], 30), SIZE)
    shown = [top(row, 20) for row in whole[1:]]
    together = expert_rows(shown, public)
    for at in (0, 7, 78):
        assert torch.equal(expert_rows([shown[at]], public)[0], together[at])
    assert torch.equal(expert_rows(shown[::-1], public).flip(0), together)


def test_a_row_that_shows_nothing_is_no_distribution_and_adds_nothing():
    whole = some_rows(3)
    public = public_row(top(whole[0], 30), SIZE)
    rows = expert_rows([top(whole[1], 20), {}, top(whole[2], 20)], public)
    assert rows[1].isnan().all()
    step = DenseStep(public, rows)
    others = DenseStep(public, rows[[0, 2]])
    for utility in (Surplus(), LogProb(), LogRatio(), Vote()):
        assert float(step.ranges(utility, 1.0)[1]) == 0
        found, expected = (one.weighted_sum(utility, 1.0) for one in (step, others))
        assert torch.equal(found, expected)
    assert step.log_probs(5).tolist()[1] == -math.inf


def test_numbers_beyond_the_vocabulary_are_left_over():
    public = public_row({0: math.log(0.5), SIZE + 7: math.log(0.25)}, SIZE)
    assert float(public[1]) == pytest.approx(math.log(0.25 / (SIZE - 1)))
    [row] = expert_rows([{3: math.log(0.5), SIZE: math.log(0.4)}], public)
    assert row.isfinite().all()
    assert float(row[3]) == pytest.approx(math.log(0.5))
    assert expert_rows([{SIZE: -0.1}], public).isfinite().all()


def test_no_experts_are_no_rows():
    assert expert_rows([], public_row({0: -1.0}, SIZE)).shape == (0, SIZE)


@pytest.mark.parametrize(
    ("utility", "most"),
    [
        (Surplus(), 0.06),
        (Sufficient(Surplus(), 10.0, 5.0), 0.06),
        (LogProb(3.0), 1e-5),  # exact: a token that is not among 20 has at most e^-3
        (LogRatio(1.0), 2.0),  # its whole range: take another utility, or a server that shows more
        (Vote(), 0.0),
    ],
)
def test_what_twenty_tokens_lose(utility, most):
    """Largest change of what one expert adds, against the whole vocabulary and its public row."""
    whole = some_rows(40)
    public = public_row(top(whole[0], 200), SIZE)
    found = utility(expert_rows([top(row, 20) for row in whole[1:]], public), public)
    expected = utility(whole[1:], whole[0])
    lowest = [one - one.amin(dim=-1, keepdim=True) for one in (found, expected)]
    assert float((lowest[0] - lowest[1]).abs().max()) <= most
