"""Output distributions of neighbouring pools, computed exactly and compared with the charge.

Every coin of a sampler is enumerated. A text of two tokens has as many outputs as there are pairs
of candidates, and every token has a sample of its own, so the distribution of an output is the
product over its tokens of mixtures over samples.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import replace

import pytest
import torch

from dpicl_rag.accounting import Adjacency, Gaussian, PoissonSubsampled
from dpicl_rag.accounting.conversion import gaussian_delta
from dpicl_rag.auditing.neighbours import exact_epsilon
from dpicl_rag.mechanisms import points as points_module
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import Surplus
from dpicl_rag.synthesis import noisy_sums
from dpicl_rag.synthesis.examples import LabelledDocument, synthesise_examples
from dpicl_rag.synthesis.examples_plan import examples_plan
from tests.support.speaking_model import SpeakingModel, says

ARRIVAL, REPLACED = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
EPSILON, DELTA = 2.0, 1e-2
SIZE = 3


class Enumerated(Randomness):
    """Replays choices; the first unknown one takes its first option, and all are noted."""

    def __init__(self, rate, choices):
        self.rate = rate
        self.choices = choices
        self.made = []

    def _choose(self, chances):
        at = self.choices[len(self.made)] if len(self.made) < len(self.choices) else 0
        self.made.append((at, chances))
        return at

    def uniform(self):
        options = [(0.0, self.rate), (1 - 2.0**-53, 1 - self.rate)]
        options = [option for option in options if option[1] > 0]
        return options[self._choose([chance for _, chance in options])][0]

    def below(self, bound):
        return self._choose([1 / bound] * bound)


def every_sample(sampler, pool, rate):
    """All samples of a pool, each with its probability."""
    waiting, found = [()], defaultdict(float)
    while waiting:
        coins = Enumerated(rate, waiting.pop())
        members = sampler({str(at): (word,) for at, word in enumerate(pool)}, coins)
        chance = math.prod(chances[at] for at, chances in coins.made)
        found[tuple(sorted(member for member in members if member))] += chance
        for depth in range(len(coins.choices), len(coins.made)):
            prefix = tuple(at for at, _ in coins.made[:depth])
            waiting += [(*prefix, other) for other in range(1, len(coins.made[depth][1]))]
    assert sum(found.values()) == pytest.approx(1)
    return found.items()


def step_of(members, drawn=(), size=SIZE):
    rows = [says("", drawn, size), *(says(words[-1], drawn, size) for words in members)]
    log_probs = torch.log_softmax(torch.tensor(rows), dim=-1)
    return DenseStep(log_probs[0], log_probs[1:])


def next_token(plan, pool, rate, drawn, size=SIZE):
    """Distribution of one token over fresh coins, float64 [size]."""
    return sum(
        chance * plan.mechanism.distribution(step_of(members, drawn, size))
        for members, chance in every_sample(plan.sampler, pool, rate)
    )


def outputs(plan, pool, rate, tokens, size=SIZE):
    """Log-probabilities of all texts of some tokens, float64 [size ^ tokens]."""
    joint = torch.zeros(1, dtype=torch.float64)
    for at in range(tokens):  # what the model says depends on how many tokens were drawn
        log_probs = torch.log(next_token(plan, pool, rate, (0,) * at, size))
        joint = (joint[:, None] + log_probs).ravel()
    return joint


def plan_of(method, **settings):
    given = {
        "epsilon": EPSILON,
        "delta": DELTA,
        "texts_per_label": 1,
        "max_tokens": 2,
        "experts": 2,
        "per_expert": 1,
        "rate": 0.5,
        "candidates": SIZE,
        "adjacency": ARRIVAL,
        "labels_per_unit": 1,
    } | settings
    return examples_plan(method, 2, **given)


WORDS = ("turn-0", "turn-1", "only-2", "plain")
AROUND = [(), ("turn-1",), ("turn-1", "turn-1", "only-2"), ("turn-0", "plain", "turn-2")]
EACH_CLOSED = pytest.mark.parametrize(
    "method", ["few-shot", "few-shot-permute-and-flip", "difference"]
)


def worst_arrival(plan, rate, tokens, size=SIZE, around=AROUND):
    found = 0.0
    for others in around:
        without = outputs(plan, others, rate, tokens, size)
        for word in WORDS:
            beside = outputs(plan, (*others, word), rate, tokens, size)
            found = max(found, exact_epsilon(beside, without, DELTA))
    return found


def worst_replacement(plan, rate, tokens, size=SIZE, around=AROUND):
    found = 0.0
    for others in around:
        each = [outputs(plan, (*others, word), rate, tokens, size) for word in WORDS]
        for one, other in itertools.combinations(each, 2):
            found = max(found, exact_epsilon(one, other, DELTA))
    return found


@EACH_CLOSED
@pytest.mark.parametrize("rate", [0.5, None])
def test_an_arrival_costs_what_is_charged_at_most(method, rate):
    plan = plan_of(method, rate=rate)
    found = worst_arrival(plan, rate or 1.0, 2)
    assert 0.3 * EPSILON <= found <= EPSILON


@EACH_CLOSED
def test_an_arrival_in_groups_costs_what_is_charged_at_most(method):
    plan = plan_of(method, per_expert=2)
    found = worst_arrival(plan, 0.5, 1, around=AROUND[1:3])
    assert 0.05 * EPSILON <= found <= EPSILON


@pytest.mark.parametrize("method", ["few-shot", "difference"])
@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_a_replacement_costs_what_is_charged_at_most(method, rate):
    plan = plan_of(method, rate=rate, adjacency=REPLACED, max_tokens=1)
    found = worst_replacement(plan, rate, 1)
    assert 0.1 * EPSILON <= found <= EPSILON


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", ["few-shot", "difference"])
def test_a_unit_that_changes_its_label_changes_two_pools(method):
    """Relabelled: one pool loses a unit, the other has one more; both texts are released."""
    plan = plan_of(method, adjacency=REPLACED, max_tokens=1)
    assert (plan.pools, plan.draws) == (2, 2)
    found = 0.0
    for first, second in itertools.product(AROUND[:3], repeat=2):
        for word, other in itertools.product(WORDS, repeat=2):
            before = [outputs(plan, pool, 0.5, 1) for pool in ((*first, word), second)]
            after = [outputs(plan, pool, 0.5, 1) for pool in (first, (*second, other))]
            joint = [(a[:, None] + b[None]).ravel() for a, b in (before, after)]
            found = max(found, exact_epsilon(*joint, DELTA))
    assert 0.1 * EPSILON <= found <= EPSILON


def joint_of_two_labels(plan, others, word):
    """Texts of two labels, where one unit is in both pools, or in none."""
    pools_with = [(*others, word)] * 2
    with_it = [outputs(plan, pool, 0.5, 1) for pool in pools_with]
    without = [outputs(plan, others, 0.5, 1) for _ in pools_with]
    return tuple((a[:, None] + b[None]).ravel() for a, b in (with_it, without))


def test_a_unit_of_two_labels_pays_for_both_and_fails_the_parallel_charge():
    added = plan_of("few-shot", labels_per_unit=2, max_tokens=1)
    assert added.draws == 2 * plan_of("few-shot", max_tokens=1).draws

    def found(plan):
        pairs = (joint_of_two_labels(plan, others, "turn-0") for others in AROUND)
        return max(exact_epsilon(*pair, DELTA) for pair in pairs)

    assert found(added) <= EPSILON
    method = "few-shot-permute-and-flip"
    assert found(plan_of(method, labels_per_unit=2, max_tokens=1)) <= EPSILON
    assert found(plan_of(method, labels_per_unit=1, max_tokens=1)) > EPSILON


@EACH_CLOSED
def test_candidates_follow_from_the_public_row(method):
    plan = plan_of(method, candidates=2, max_tokens=1, rate=None)
    assert worst_arrival(plan, 1.0, 1) <= EPSILON


# Planted faults: with each of them the checks above must find more than is charged.


def test_noise_for_arrivals_is_too_little_for_replacements_and_the_other_way_round():
    add = plan_of("few-shot", rate=None, max_tokens=1, texts_per_label=1)
    assert worst_replacement(add, 1.0, 1) > EPSILON
    for method in ("few-shot", "difference"):
        add, swap = (
            plan_of(method, rate=1.0, max_tokens=1, adjacency=a, labels_per_unit=2)
            for a in (ARRIVAL, REPLACED)
        )
        ratio = swap.mechanism.sigma / add.mechanism.sigma
        assert ratio == pytest.approx(math.sqrt(2) if method == "few-shot" else 2, rel=1e-6)


def test_candidates_from_a_private_row_show(monkeypatch):
    plan = plan_of("few-shot", candidates=2, max_tokens=1, rate=None)
    assert worst_arrival(plan, 1.0, 1, around=AROUND[1:2]) <= EPSILON
    seen: list[torch.Tensor] = []
    whole = noisy_sums.points

    def peek(step, at):
        own = step.rows[1].topk(2).indices if len(step.rows) > 1 else at
        seen.append(own)
        return whole(step, own)

    monkeypatch.setattr(noisy_sums, "points", peek)
    monkeypatch.setattr(noisy_sums, "spread", lambda p, at, n: points_module.spread(p, seen[-1], n))
    assert worst_arrival(plan, 1.0, 1, around=AROUND[1:2]) > 100 * EPSILON


def test_centre_and_projected_points_added_up_show(monkeypatch):
    plan = plan_of("difference", rate=None, max_tokens=1, epsilon=1.0)
    assert worst_arrival(plan, 1.0, 1) <= 1.0

    def projected(points, centre, radius):
        return right(points, centre, radius) + len(points) * centre

    right = noisy_sums.clipped_sum
    monkeypatch.setattr(noisy_sums, "clipped_sum", projected)
    # A public row that is sure of a token: its length is 1, and all of it comes with a unit.
    sure = torch.tensor([[0.0, -60.0, -60.0], [-60.0, 0.0, -60.0], [0.0, -60.0, -60.0]])
    rows = torch.log_softmax(sure, dim=-1)
    crowd = [rows[1]] * 2  # near a tie between the first two tokens
    found = []
    for clipped in (right, projected):
        monkeypatch.setattr(noisy_sums, "clipped_sum", clipped)
        mechanism = replace(plan.mechanism, experts=0)

        with_it = mechanism.distribution(DenseStep(rows[0], torch.stack([*crowd, rows[0]])))
        without = mechanism.distribution(DenseStep(rows[0], torch.stack(crowd)))
        found.append(exact_epsilon(with_it.log(), without.log(), DELTA))
    assert found[0] <= 1.0 < found[1]


def test_a_rate_other_than_the_samplers_shows():
    """The charge for one text over the whole set, as a published pack has it, is far too small."""
    honest = plan_of("few-shot")
    wrong = replace(plan_of("few-shot", rate=0.05), sampler=honest.sampler)
    assert worst_arrival(honest, 0.5, 2, around=AROUND[1:3]) <= EPSILON
    assert worst_arrival(wrong, 0.5, 2, around=AROUND[1:3]) > EPSILON


def test_one_sample_for_all_tokens_shows():
    """Coins that are tossed once for a text: mixtures of products, not products of mixtures."""
    rate, tokens = 0.1, 12
    plan = plan_of("few-shot", rate=rate, max_tokens=tokens, epsilon=1.0)
    sigma = plan.mechanism.sigma
    charged = plan.event
    assert charged == PoissonSubsampled(rate, Gaussian(charged.event.noise_multiplier))
    # A unit in every token's sample with probability ``rate``, or in none: the whole vector, and
    # the delta of one Gaussian of ``tokens`` releases on that sample.
    a = 1 + math.expm1(1.0) / rate
    shared = rate * gaussian_delta(math.sqrt(tokens) / sigma, math.log(a))
    assert shared > 3 * DELTA


def test_a_missing_token_counts_nothing(monkeypatch):
    at = torch.arange(SIZE)

    def counted():
        return points_module.points(step_of((("only-2",),)), at).tolist()

    assert counted() == [[0, 0, points_module.GRID]]
    right = points_module._on_grid
    monkeypatch.setattr(
        points_module, "_on_grid", lambda rows: right(rows.masked_fill(rows.isinf(), 0.0))
    )
    assert counted() != [[0, 0, points_module.GRID]]


# The exponential method, through the whole function: every path is followed.


class Followed(Randomness):
    """Takes given tokens, and notes what they were drawn from."""

    def __init__(self, path):
        self._path = iter(path)
        self.log_prob = 0.0

    def draw(self, scores):
        token = next(self._path)
        self.log_prob += float(torch.log_softmax(scores, dim=-1)[token])
        return token


def written_by(pool, tokens, **settings):
    found = []
    examples = [LabelledDocument(word, "x", f"unit {at}") for at, word in enumerate(pool)]
    for path in itertools.product(range(SIZE), repeat=tokens):
        coins = Followed(path)
        synthesise_examples(
            examples,
            ["x"],
            model=SpeakingModel(SIZE),
            epsilon=EPSILON,
            delta=DELTA,
            max_tokens=tokens,
            randomness=coins,
            **settings,
        )
        found.append(coins.log_prob)
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("method", ["exponential", "few-shot", "difference"])
def test_whole_runs_stay_within_the_charge(method):
    found = 0.0
    for others in AROUND[1:3]:
        without = written_by(others, 2, method=method)
        for word in WORDS:
            found = max(
                found, exact_epsilon(written_by((*others, word), 2, method=method), without, DELTA)
            )
    assert 0.03 * EPSILON <= found <= EPSILON


@pytest.mark.parametrize("method", ["few-shot", "difference"])
def test_whole_runs_draw_from_what_the_plan_says(method):
    pool = ("turn-1", "turn-1", "only-2")
    given = {"rate": None, "candidates": 100, "experts": 20}
    assert written_by(pool, 2, method=method).tolist() == pytest.approx(
        outputs(plan_of(method, **given), pool, 1.0, 2).tolist(), rel=1e-9
    )


@pytest.mark.parametrize("rate", [None, 0.5])
@EACH_CLOSED
def test_what_an_empty_pool_is_written_from(method, rate):
    """The public row, or its likeliest candidates alike: of sums of nothing only noise is left."""
    empty = outputs(plan_of(method, rate=rate), (), rate or 1.0, 2)
    if method == "difference":
        assert [int(at) for at in divmod(int(empty.argmax()), SIZE)] == [
            int(step_of((), drawn).public.argmax()) for drawn in ((), (0,))
        ]
        assert len(empty.unique()) > 1
    else:
        assert empty.tolist() == pytest.approx([-2 * math.log(SIZE)] * SIZE**2)


def test_whole_runs_over_nothing_draw_by_the_public_row_or_evenly():
    public = torch.log_softmax(Surplus().base(step_of(()).public).double(), dim=-1)
    assert written_by((), 1, method="exponential").tolist() == pytest.approx(public.tolist())
    for method in ("few-shot", "few-shot-permute-and-flip"):
        even = written_by((), 1, method=method, candidates=2).exp()
        assert sorted(even.tolist()) == pytest.approx([0, 0.5, 0.5])
