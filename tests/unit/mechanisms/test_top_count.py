"""How many hold the most frequent key: its whole distribution compared exactly."""

import math
from itertools import combinations, combinations_with_replacement, product

import pytest

from dpicl_rag.accounting.stability import DIRECT, RANDOM_GROUPS, Adjacency
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import TopCount
from dpicl_rag.mechanisms.randomness import SeededRandomness

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
KEYS = "abc"
CORPORA = [list(keys) for size in range(6) for keys in combinations_with_replacement(KEYS, size)]
ORDERS = (1.01, 1.5, 2.0, 8.0, 32.0)


@pytest.fixture
def silent(monkeypatch):
    """No noise, so that what it stands on is seen."""
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda *_: 0)


def most_of(keys):
    return TopCount(DiscreteGaussian(1.0), 1).draw(keys, SeededRandomness(0))


def divergence(sigma, apart, order):
    """Of the noise on two counts, by Renyi, as an exact sum."""
    reach = range(-math.ceil(60 * sigma), math.ceil(60 * sigma) + 1)
    weights = {x: math.exp(-x * x / (2 * sigma * sigma)) for x in reach}
    total = math.fsum(weights.values())
    ratio = [
        (order * (-(x * x)) + (order - 1) * (x - apart) ** 2) / (2 * sigma * sigma) for x in reach
    ]
    return math.log(math.fsum(map(math.exp, ratio)) / total) / (order - 1)


@pytest.mark.usefixtures("silent")
@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
@pytest.mark.parametrize("stability", [DIRECT, RANDOM_GROUPS])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_no_neighbour_moves_it_further_than_it_is_paid_for(stability, adjacency):
    count = TopCount.within(0.02, stability, adjacency)
    added, changed = stability.moved(adjacency)
    moved = 0
    for keys in CORPORA:
        # A key that is changed is one that goes and one that comes.
        for gone in combinations(range(len(keys)), changed):
            rest = [key for at, key in enumerate(keys) if at not in gone]
            for come in product([*KEYS, "new"], repeat=added + changed):
                moved = max(moved, abs(most_of([*rest, *come]) - most_of(keys)))
    assert moved <= count.sensitivity
    if added + changed == 1:
        assert moved == 1
    for order in ORDERS:
        assert divergence(count.noise.sigma, count.sensitivity, order) <= order * 0.02
        # Half of it would not do.
        assert divergence(count.noise.sigma, count.sensitivity, order) > order * 0.019


@pytest.mark.usefixtures("silent")
@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
def test_it_is_the_largest_count_and_of_nobody_it_is_noise():
    assert most_of(["a", "b", "a", "c", "a"]) == 3
    assert most_of([]) == 0


@pytest.mark.parametrize("rho", [0.0, -1.0, math.inf, math.nan])
def test_a_price_that_buys_no_count_is_refused(rho):
    with pytest.raises(ConfigurationError):
        TopCount.within(rho, DIRECT, ADD)


@pytest.mark.parametrize("rho", [0.001, 0.014, 0.7])
def test_it_costs_no_more_than_its_price(rho):
    for stability, adjacency in product((DIRECT, RANDOM_GROUPS), (ADD, REPLACE)):
        found = TopCount.within(rho, stability, adjacency).rho
        assert rho * (1 - 1e-9) < found <= rho
