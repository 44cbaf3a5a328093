"""The distribution of a noisy argmax, against other ways to compute it."""

import math

import pytest
import torch
from scipy import integrate, stats
from scipy.special import ndtr

from dpicl_rag.mechanisms.selection import argmax_distribution


def sums_of(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("gap", [0.0, 0.3, 2.0, 8.0, 40.0])
@pytest.mark.parametrize("sigma", [0.2, 1.0, 30.0])
def test_two_labels_by_hand(gap, sigma):
    p = argmax_distribution(sums_of(gap, 0.0), sigma)
    behind = float(ndtr(-gap / (math.sqrt(2) * sigma)))
    assert p.tolist() == pytest.approx([1 - behind, behind], abs=1e-14)


@pytest.mark.parametrize("labels", [1, 3, 14, 200])
def test_ties_are_even(labels):
    p = argmax_distribution(torch.full((labels,), 7.0).double(), 2.0)
    assert p.tolist() == pytest.approx([1 / labels] * labels, rel=1e-12)


@pytest.mark.parametrize("sums", [(3.0, 1.0, 0.0, 2.5), (0.0, 0.1, 0.2), (50.0, 49.0, -3.0, 48.0)])
@pytest.mark.parametrize("sigma", [0.5, 1.7])
def test_several_labels_by_adaptive_quadrature(sums, sigma):
    def integrand(t: float, at: int) -> float:
        others = math.prod(stats.norm.cdf((t - s) / sigma) for i, s in enumerate(sums) if i != at)
        return stats.norm.pdf((t - sums[at]) / sigma) / sigma * others

    top = max(sums)
    expected = [
        integrate.quad(
            integrand, top - 9 * sigma, top + 9 * sigma, args=(at,), epsabs=1e-12, limit=200
        )[0]
        for at in range(len(sums))
    ]
    assert argmax_distribution(sums_of(*sums), sigma).tolist() == pytest.approx(expected, abs=1e-9)


def test_a_shift_of_all_changes_nothing():
    sums = sums_of(1.0, 4.0, 2.0)
    assert torch.allclose(
        argmax_distribution(sums, 1.3), argmax_distribution(sums + 1000, 1.3), atol=1e-12
    )


def test_noise_added_for_real_agrees():
    noise = torch.Generator().manual_seed(4)
    sums, sigma, runs = sums_of(2.0, 1.0, 0.0, 1.5), 1.4, 40_000
    noisy = sums + sigma * torch.randn(runs, 4, generator=noise, dtype=torch.float64)
    counts = torch.bincount(noisy.argmax(dim=1), minlength=4)
    expected = runs * argmax_distribution(sums, sigma)
    assert stats.chisquare(counts.numpy(), expected.numpy()).pvalue > 1e-3
