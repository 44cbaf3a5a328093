"""Draws follow the distribution that the exact tests look at (chi-square)."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from scipy.stats import chisquare

from dpicl_rag.auditing import Subject, SyntheticModel
from dpicl_rag.auditing.synthetic import worst_speech
from dpicl_rag.documents import Document
from dpicl_rag.mechanisms import exponential
from dpicl_rag.mechanisms.exponential import draw
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness, SeededRandomness

DRAWS = 20_000
# A right sampler fails one seeded test in 10,000 seeds; the seeds here are fixed.
LEVEL = 1e-4


@pytest.fixture
def seeded() -> Randomness:
    with pytest.warns(NotPrivateWarning):
        return SeededRandomness(11)


def p_value(scores: torch.Tensor, randomness: Randomness, sampler=draw) -> float:
    counts = Counter(sampler(scores, randomness) for _ in range(DRAWS))
    expected = torch.softmax(scores, -1) * DRAWS
    assert set(counts) <= set(torch.nonzero(expected).flatten().tolist())
    inside = [token for token in range(len(scores)) if expected[token] >= 5]
    observed = [counts[token] for token in inside]
    rest = DRAWS - sum(observed)
    exact = [float(expected[token]) for token in inside]
    if rest or DRAWS - sum(exact) > 1e-6:
        observed.append(rest)
        exact.append(DRAWS - sum(exact))
    return float(chisquare(observed, exact).pvalue)


SCORES = {
    "even": [0.0] * 7,
    "steep": [0.0, -1.0, -2.0, -3.0, -4.0, -5.0],
    "gaps": [-1.0, -float("inf"), 0.0, -float("inf"), 0.5, -float("inf")],
    "far from zero": [-900.0, -901.0, -899.5],
}


@pytest.mark.parametrize("name", SCORES)
def test_draws_follow_the_scores(name, seeded):
    assert p_value(torch.tensor(SCORES[name], dtype=torch.float64), seeded) > LEVEL


def test_a_single_candidate_is_always_drawn(seeded):
    scores = torch.tensor([-torch.inf, 3.0, -torch.inf], dtype=torch.float64)
    assert {draw(scores, seeded) for _ in range(100)} == {1}


def test_the_cryptographic_generator_is_as_good():
    scores = torch.tensor(SCORES["steep"], dtype=torch.float64)
    # Not seeded: a right sampler fails one run in 10 million.
    assert p_value(scores, Randomness()) > 1e-7


def test_a_sampler_that_rounds_its_scores_is_seen(seeded):
    def rounded(scores, randomness):
        return exponential.draw(torch.round(scores * 4) / 4, randomness)

    scores = torch.tensor([0.0, -0.6, -1.1, -1.4], dtype=torch.float64)
    assert p_value(scores, seeded) > LEVEL
    assert p_value(scores, seeded, rounded) < LEVEL


def test_answers_follow_the_distribution_they_claim():
    """Whole answers of one token, drawn by the private path itself."""
    size = 5
    audited = Subject(
        SyntheticModel(size, worst_speech(size)),
        "Which?",
        {"max_tokens": 1, "epsilon": 4.0},
    )
    corpus = [Document("token 1", "a"), Document("token 1", "b"), Document("token 3", "c")]
    exact = audited.follow(corpus, [0]).log_probs[0].exp()
    draws = 600
    counts = Counter(audited.sample(corpus).text for _ in range(draws))
    observed = [counts[chr(ord("a") + token)] for token in range(size)]
    # Not seeded: a right sampler fails one run in 10 million.
    assert chisquare(observed, (exact * draws).tolist()).pvalue > 1e-7
    # The same counts are no sample of the distribution without the documents.
    public = audited.follow([], [0]).log_probs[0].exp()
    assert chisquare(observed, (public * draws).tolist()).pvalue < 1e-7
