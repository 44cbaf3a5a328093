"""ESA: its price, neighbours compared in closed form, faults, and what is answered."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import norm

from dpicl_rag.accounting import Adjacency, PrivacyLossAccountant
from dpicl_rag.accounting.events import Gaussian, PoissonSubsampled
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import points
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness, SeededRandomness
from dpicl_rag.retrieval.vectors import on_grid
from dpicl_research import embedding_aggregation
from dpicl_research.embedding_aggregation import EmbeddingAggregation, NoisySum, longest

PRICES = [(1.0, 1e-5), (2.0, 1e-6), (4.0, 1e-5), (8.0, 1e-5)]
VECTORS = {
    "east": (1.0, 0.0, 0.0),
    "west": (-1.0, 0.0, 0.0),
    "north": (0.0, 1.0, 0.0),
    "long": (3.0, 0.0, 0.0),
    "huge": (1e300, 1e300, 1e-300),
    "tiny": (1e-300, -1e-300, 0.0),
    "zero": (0.0, 0.0, 0.0),
    "broken": (math.nan, math.inf, 1.0),
    "skew": (0.3, -0.4, 0.7),
}


def embed(texts):
    return np.array([VECTORS[text] for text in texts])


def says(*answers):
    """A model that gives these answers without documents, over and over."""
    asked = []

    def ask(prompt):
        asked.append(prompt)
        return answers[(len(asked) - 1) % len(answers)]

    ask.asked = asked
    return ask


def beyond(mu, epsilon):
    """Hockey-stick divergence of two Gaussians of distance mu over sigma: Balle, Wang 2018."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
@pytest.mark.parametrize("dimensions", [2, 384, 4096])
def test_noise_is_the_least_that_the_price_pays_for(epsilon, delta, dimensions):
    sigma = NoisySum.within(epsilon, delta, dimensions).sigma
    assert beyond(longest(dimensions) / sigma, epsilon) <= delta * (1 + 1e-9)
    assert beyond(longest(dimensions) / (sigma * 0.999), epsilon) > delta
    other = privacy_loss_distribution.from_gaussian_mechanism(sigma / longest(dimensions))
    assert other.get_epsilon_for_delta(delta) == pytest.approx(epsilon, rel=2e-3)


def test_no_vector_on_the_grid_is_longer_than_the_sensitivity():
    generator = np.random.default_rng(0)
    for dimensions in (1, 3, 384, 1536):
        rows = generator.normal(size=(200, dimensions)) ** 3
        lengths = np.linalg.norm(on_grid(rows).astype(np.longdouble), axis=1)
        assert lengths.max() <= longest(dimensions) < 1 + 1e-4


def noiseless(monkeypatch, replies):
    """What noise is put on."""
    sums = []

    def none(size, sigma, randomness):
        return points.torch.zeros(size, dtype=points.torch.float64)

    draw = NoisySum.draw

    def kept(self, vectors, randomness):
        sums.append(draw(self, vectors, randomness))
        return sums[-1]

    with monkeypatch.context() as patch:
        patch.setattr(points, "noise", none)
        patch.setattr(NoisySum, "draw", kept)
        EmbeddingAggregation(embed, candidates=2).answer(
            "q", replies, says("east", "north"), epsilon=1, delta=1e-5, randomness=Randomness()
        )
    return sums[0]


def moved(monkeypatch):
    """How far one reply, before, between or behind others, moves what noise is put on, at most."""
    corpora = ([], ["west"], ["skew", "skew", "north"], ["huge", "broken", "tiny", "east"])
    return max(
        float(
            np.linalg.norm(
                noiseless(monkeypatch, corpus)
                - noiseless(monkeypatch, [*corpus[:at], reply, *corpus[at:]])
            )
        )
        for corpus in corpora
        for reply in [*VECTORS, "", "  "]
        for at in range(len(corpus) + 1)
    )


def test_a_reply_moves_the_sum_by_the_sensitivity_at_most(monkeypatch):
    assert 0.999 < moved(monkeypatch) <= longest(3)


def test_vectors_that_are_not_of_unit_length_are_found(monkeypatch):
    def as_they_are(vectors):
        rows = np.asarray(vectors)
        usual = np.abs(rows) < 10  # also false for what is no number
        return np.where(usual, rows, 0.0).astype(np.float32)

    monkeypatch.setattr(embedding_aggregation, "on_grid", as_they_are)
    most = moved(monkeypatch)
    assert most == pytest.approx(3)
    sigma = NoisySum.within(4.0, 1e-5, 3).sigma
    assert beyond(most / sigma, 4.0) > 1e-5


def east_wins(replies, sigma):
    """Exact chance of "east" against "north": one Gaussian decides."""
    apart = np.array([1.0, -1.0, 0.0])
    mean = sum((on_grid(embed([reply]))[0] @ apart for reply in replies), 0.0)
    return float(norm.cdf(mean / (sigma * math.sqrt(2))))


@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
def test_answers_of_neighbours_are_within_the_price(epsilon, delta):
    sigma = NoisySum.within(epsilon, delta, 3).sigma

    def worst(sigma):
        found = 0.0
        for corpus in ([], ["east"], ["west"] * 3, ["north"] * 2, ["east", "skew"], ["north"] * 9):
            for reply in VECTORS:
                p, q = east_wins(corpus, sigma), east_wins([*corpus, reply], sigma)
                for one, other in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
                    found = max(found, one - math.exp(epsilon) * other)
        return found

    assert worst(sigma) <= delta
    assert worst(sigma / 8) > delta


@pytest.mark.parametrize("replies", [[], ["east"], ["west", "", "skew"]], ids=len)
def test_the_noise_that_is_drawn_has_the_stated_scale(monkeypatch, replies):
    drawn = []
    noise = points.noise

    def seen(size, sigma, randomness):
        drawn.append((size, sigma))
        return noise(size, sigma, randomness)

    monkeypatch.setattr(points, "noise", seen)
    EmbeddingAggregation(embed, candidates=3).answer(
        "q", replies, says("east", "north"), epsilon=2, delta=1e-6, randomness=Randomness()
    )
    assert drawn == [(3, NoisySum.within(2, 1e-6, 3).sigma)]


def test_replies_that_agree_choose_their_answer():
    sigma = NoisySum.within(8, 1e-5, 3).sigma
    assert east_wins(["east"] * 4, sigma) > 0.999
    ask = says("north", "east", "", "west", "north")
    made = EmbeddingAggregation(embed, candidates=5)
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(0)
    told = {
        made.answer("q", ["east"] * 6, ask, epsilon=8, delta=1e-5, randomness=coins)
        for _ in range(20)
    }
    assert told == {"east"}
    assert len(ask.asked) == 20 * 5


def test_prompts_are_the_same_whatever_the_replies():
    prompts = []
    for replies in ([], ["skew"] * 9):
        ask = says("east", "north")
        EmbeddingAggregation(embed, candidates=4).answer(
            "Where to?", replies, ask, epsilon=1, delta=1e-5, randomness=Randomness()
        )
        prompts.append(ask.asked)
    assert prompts[0] == prompts[1]
    assert len(set(prompts[0])) == 4  # a model without temperature must not repeat itself
    assert all("Where to?" in prompt for prompt in prompts[0])


def test_without_replies_noise_chooses():
    ask = says("east", "north")
    answer = EmbeddingAggregation(embed, candidates=2).answer(
        "q", [], ask, epsilon=1, delta=1e-5, randomness=Randomness()
    )
    assert answer in ("east", "north")


def test_without_candidates_there_is_no_answer():
    answer = EmbeddingAggregation(embed, candidates=2).answer(
        "q", ["east"], says(" "), epsilon=1, delta=1e-5, randomness=Randomness()
    )
    assert answer == ""


def test_bad_settings_are_told_before_anything_is_asked():
    with pytest.raises(ConfigurationError, match=r"^candidates must [^\n]*$"):
        EmbeddingAggregation(embed, candidates=0)
    ask = says("east")
    for given, named in (
        ({"epsilon": 0, "delta": 1e-5}, "epsilon"),
        ({"epsilon": math.inf, "delta": 1e-5}, "epsilon"),
        ({"epsilon": 1, "delta": 0}, "delta"),
        ({"epsilon": 1, "delta": 1}, "delta"),
    ):
        with pytest.raises(ConfigurationError, match=f"^{named} must [^\n]*$"):
            EmbeddingAggregation(embed).answer("q", [], ask, **given, randomness=Randomness())
    assert ask.asked == []


@pytest.mark.parametrize(
    ("claimed", "sigma", "true"),
    [(1, 1.27186110977162, 5.32), (3, 0.7870368587905289, 19.8), (8, 0.5481881634515281, 51.4)],
)
def test_what_the_published_noise_costs(claimed, sigma, true):
    """Noise of the published notebook, 100 answers, delta 5e-5: the figures of docs/methods.md."""

    def cost(sensitivity):
        event = PoissonSubsampled(400 / 14732, Gaussian(sigma / sensitivity))
        spent = PrivacyLossAccountant(Adjacency.ADD_OR_REMOVE_ONE).compose(event, 100)
        return spent.epsilon(5e-5)

    assert cost(1) == pytest.approx(claimed, abs=0.01)
    assert cost(2) == pytest.approx(true, abs=0.05)
