"""A unit says what its own row says, beside the row that reads no document."""

import math

import pytest
import torch

from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.surveys.opinions import opinions


def step(*rows, public=(0.2, 0.3, 0.5)):
    probabilities = torch.tensor([public, *rows], dtype=torch.float64)
    return DenseStep(probabilities[0].log(), probabilities[1:].log())


def test_what_the_model_says_in_any_case_is_no_opinion():
    # The likeliest is the third in both; the first gains by the document.
    said = opinions(step([0.35, 0.25, 0.4], [0.1, 0.2, 0.7]))
    assert said.tolist() == [[True, False, False], [False, False, True]]


def test_of_several_labels_those_that_beat_an_even_chance_are_said():
    rows = step([0.4, 0.55, 0.05], [0.9, 0.05, 0.05], [0.2, 0.3, 0.5])
    assert opinions(rows, 2).sum(dim=-1).tolist() == [2, 1, 2]
    assert opinions(rows, 3).sum(dim=-1).tolist() == [2, 1, 3]
    assert opinions(rows, 1).sum(dim=-1).tolist() == [1, 1, 1]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_that_is_no_distribution_says_nothing(bad):
    rows = step([0.4, 0.5, 0.1])
    broken = DenseStep(rows.public, torch.cat([rows.experts, torch.full((1, 3), bad)]))
    assert opinions(broken, 2).tolist() == [*opinions(rows, 2).tolist(), [False] * 3]


def test_no_unit_has_a_part_in_anothers_opinion():
    torch.manual_seed(1)
    rows = torch.log_softmax(torch.randn(40, 7).double(), dim=-1)
    together = opinions(DenseStep(rows[0], rows[1:]), 3)
    for at in range(1, 40):
        assert opinions(DenseStep(rows[0], rows[at : at + 1]), 3)[0].equal(together[at - 1])


def test_of_nobody_there_is_none():
    assert opinions(DenseStep(torch.zeros(3), torch.zeros(0, 3))).shape == (0, 3)
