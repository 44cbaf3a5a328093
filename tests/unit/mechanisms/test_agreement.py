"""What an agreement releases, its whole distribution compared exactly between neighbours."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from dpicl_rag.accounting.conversion import rho_to_delta
from dpicl_rag.accounting.stability import DIRECT, RANDOM_GROUPS, Adjacency
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Agreement
from dpicl_rag.mechanisms.randomness import Randomness

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)


def released(agreement: Agreement, keys: list[str], most: int = 60) -> dict:
    """Chance of each key with its count, and of no release (None)."""
    noise = np.arange(-most, most + 1)
    pmf = np.exp(-(noise**2) / (2 * agreement.noise.sigma**2))
    pmf /= pmf.sum()
    counts = Counter(keys)

    def below(key: str, line: int, beaten: str) -> float:
        """Chance that a key's count is less than the line, or equal and the smaller key."""
        value = noise + counts[key]
        return float(pmf[(value < line) | ((value == line) & (key < beaten))].sum())

    found: dict = {}
    for key in counts:
        for shift, chance in zip(noise, pmf, strict=True):
            count = counts[key] + int(shift)
            if count >= agreement.threshold:
                others = math.prod(below(one, count, key) for one in counts if one != key)
                found[key, count] = float(chance) * others
    found[None] = 1 - sum(found.values())
    return found


def beyond(p: dict, q: dict, epsilon: float) -> float:
    """Hockey-stick divergence, the larger of both ways."""
    every = {*p, *q}
    one, other = (
        sum(max(0.0, a.get(x, 0.0) - math.exp(epsilon) * b.get(x, 0.0)) for x in every)
        for a, b in ((p, q), (q, p))
    )
    return max(one, other)


CORPORA = [[], ["a"], ["a"] * 3, ["a"] * 6, ["a"] * 4 + ["b"] * 3, ["b"] * 5 + ["a", "c"]]
NEW = ["a", "b", "d"]


def worst(agreement: Agreement, *, adjacency: Adjacency, rho: float, delta: float) -> float:
    """How far the worst pair of neighbours passes the claim; 0 or less where it holds."""
    found = -1.0
    for keys in CORPORA:
        for key in NEW:
            if adjacency is ADD:
                pairs = [([*keys, key], keys)]
            else:
                pairs = [([*keys, key], [*keys, other]) for other in NEW if other != key]
            for left, right in pairs:
                p, q = released(agreement, left), released(agreement, right)
                only = {k for k in left if k not in right}, {k for k in right if k not in left}
                alone = [
                    sum(chance for out, chance in law.items() if out and out[0] in own)
                    for law, own in zip((p, q), only, strict=True)
                ]
                for epsilon in EPSILONS:
                    allowed = delta + rho_to_delta(rho, epsilon)
                    found = max(found, beyond(p, q, epsilon) - allowed)
                found = max(found, sum(alone) - delta)
    return found


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize(("rho", "delta"), [(0.5, 1e-2), (0.05, 1e-3), (1.0, 1e-5)])
def test_neighbours_are_within_the_charge(adjacency, rho, delta):
    made = Agreement.within(rho, delta, DIRECT, adjacency)
    assert made.delta <= delta
    assert worst(made, adjacency=adjacency, rho=rho, delta=delta) <= 1e-12


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_faults_are_found(adjacency):
    rho, delta = 0.5, 1e-2
    made = Agreement.within(rho, delta, DIRECT, adjacency)
    lower = replace(made, threshold=made.threshold - 1)
    assert worst(lower, adjacency=adjacency, rho=rho, delta=delta) > 0
    loud = replace(made, noise=DiscreteGaussian(made.noise.sigma / 2))
    assert worst(loud, adjacency=adjacency, rho=rho, delta=1.0) <= 0
    assert worst(loud, adjacency=adjacency, rho=rho / 20, delta=delta) > 0


def test_the_threshold_is_the_least():
    made = Agreement.within(0.02, 1e-6, DIRECT, ADD)
    assert made.noise.tail(made.threshold - 1) <= 1e-6 < made.noise.tail(made.threshold - 2)


def test_groups_that_change_cost_both_of_their_keys():
    group = Agreement.within(0.1, 1e-4, RANDOM_GROUPS, ADD)
    single = Agreement.within(0.1, 1e-4, DIRECT, ADD)
    assert group.noise.sigma == pytest.approx(math.sqrt(2) * single.noise.sigma)
    assert 2 * group.noise.tail(group.threshold - 1) <= 1e-4


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.7, 40.0])
def test_the_tail_is_exact_and_rounded_up(sigma):
    noise, far = DiscreteGaussian(sigma), math.ceil(40 * sigma)
    x = np.arange(-far, far + 1, dtype=np.longdouble)
    pmf = np.exp(-(x**2) / (2 * np.longdouble(sigma) ** 2))
    for least in (-3, 0, 1, 2, 5, math.ceil(6 * sigma)):
        exact = float(pmf[x >= least].sum() / pmf.sum())
        assert exact <= noise.tail(least) <= exact * (1 + 1e-9) + 1e-300


class Silent(Randomness):
    """No noise."""

    def below(self, bound: int) -> int:
        return 0 if bound == 1 else bound - 1


def test_the_most_frequent_key_is_released(monkeypatch):
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda *_: 0)
    made = Agreement.within(0.5, 1e-2, DIRECT, ADD)
    enough = [("x",)] * made.threshold
    (found,) = made.draw([*enough, ("y",)], Silent())
    assert (found.key, found.count, found.within) == ("x", made.threshold, 2)
    assert made.draw(enough[1:], Silent()) == []
    assert made.draw([], Silent()) == []
    both = made.draw([*enough, *[("z",)] * made.threshold], Silent())
    assert [one.key for one in both] == ["z", "x"]


def law_of(agreement: Agreement, count: int, reach: int) -> np.ndarray:
    """Chance of no release of a key, then of each noisy count from the threshold on."""
    shown = np.arange(agreement.threshold, agreement.threshold + reach)
    noise = np.arange(-400, 401)
    pmf = np.exp(-(noise**2) / (2 * agreement.noise.sigma**2))
    pmf /= pmf.sum()
    inside = np.abs(shown - count) <= 400
    law = np.where(inside, pmf[np.clip(shown - count + 400, 0, 800)], 0.0) * (count > 0)
    return np.array([1 - law.sum(), *law])


def worst_of_several(agreement: Agreement, rho: float, delta: float) -> float:
    """How far a unit with two keys passes the claim, over all counts of both; 0 or less holds.

    Counts of other keys have noise of their own, the same with the unit and without it.
    """
    found, reach = -1.0, math.ceil(14 * agreement.noise.sigma)
    laws = [law_of(agreement, count, reach) for count in range(agreement.threshold + 3)]
    for one in range(len(laws) - 1):
        for other in range(one, len(laws) - 1):
            left = np.outer(laws[one + 1], laws[other + 1])
            right = np.outer(laws[one], laws[other])
            for epsilon in EPSILONS:
                allowed = delta + rho_to_delta(rho, epsilon)
                for p, q in ((left, right), (right, left)):
                    beyond_it = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
                    found = max(found, float(beyond_it) - allowed)
    # A key that the unit alone brings is released by either of the two counts of one.
    return max(found, 1 - float(laws[1][0]) ** 2 - delta)


@pytest.mark.parametrize(("rho", "delta"), [(0.5, 1e-2), (0.2, 1e-3)])
def test_units_of_several_keys_are_within_the_charge(rho, delta):
    made = Agreement.within(rho, delta, DIRECT, ADD, keys=2)
    assert made.delta <= delta
    assert worst_of_several(made, rho, delta) <= 1e-12
    for wrong in (
        Agreement.within(rho, delta, DIRECT, ADD),  # the sensitivity of one key
        replace(made, threshold=1 + made.noise.least(2 * delta)),  # the tail of less than one
        replace(made, noise=DiscreteGaussian(made.noise.sigma / math.sqrt(2))),
    ):
        assert worst_of_several(wrong, rho, delta) > 0


def test_a_unit_has_no_more_keys_than_it_pays_for(monkeypatch):
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda *_: 0)
    made = Agreement.within(0.5, 1e-2, DIRECT, ADD, keys=2)
    held = [("x", "x", "y", "z")] * made.threshold
    # As these coins fall.
    assert [one.key for one in made.draw(held, Silent())] == ["z", "y"]
    assert {one.count for one in made.draw(held, Silent())} == {made.threshold}


@pytest.mark.parametrize(("rho", "delta"), [(0.0, 1e-6), (math.inf, 1e-6), (0.1, 0.0), (0.1, 1.0)])
def test_a_price_outside_its_range_is_one_clear_line(rho, delta):
    with pytest.raises(ConfigurationError):
        Agreement.within(rho, delta, DIRECT, ADD)
