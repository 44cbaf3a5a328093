"""Optimal partition selection: its whole distribution, in whole numbers, between neighbours."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, combinations_with_replacement, pairwise, product

import pytest

from dpicl_rag.accounting.pure_dp import zcdp
from dpicl_rag.accounting.stability import DIRECT, RANDOM_GROUPS, Adjacency, Stability
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import discrete_noise
from dpicl_rag.mechanisms.discrete_noise import TruncatedGeometric
from dpicl_rag.mechanisms.private_counts import Agreement
from dpicl_rag.mechanisms.randomness import Randomness

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
COMES, GOES = (1, 0), (0, 1)
PRICES = [(8.0, 0.01), (2.0, 1e-5), (0.3, 0.01)]


def law_of(step: Agreement, count: int) -> dict[int | None, int]:
    """Weights of what is told of a key that so many hold: nothing, or a noisy count."""
    weights = step.noise.weights if count else ()
    told: dict[int | None, int] = {None: 0 if count else sum(step.noise.weights)}
    for noise, weight in zip(range(step.noise.highest, -(10**6), -1), weights, strict=False):
        seen = count + noise if count + noise >= step.threshold else None
        told[seen] = told.get(seen, 0) + weight
    return told


def beyond(step: Agreement, moves: tuple[tuple[int, int], ...], epsilon: float) -> Fraction:
    """The largest hockey-stick divergence, over all counts of the keys that a unit moves.

    A move is what each of both corpora has beside a count that they share. Of other keys both have
    the same counts, and noise of their own.
    """
    size = len(step.noise.weights)
    laws = [law_of(step, count) for count in range(size + 2 + max(map(max, moves)))]
    # Rounded down, by more than a float is.
    up, down = (Fraction(math.exp(epsilon)) * (1 - Fraction(1, 10**14))).as_integer_ratio()
    found = 0
    alike = len(set(moves)) == 1
    for counts in (combinations_with_replacement if alike else product)(
        range(size + 2), **({"r": len(moves)} if alike else {"repeat": len(moves)})
    ):
        sides = [
            [laws[count + move[side]] for count, move in zip(counts, moves, strict=True)]
            for side in (0, 1)
        ]
        every = list(product(*({**a, **b} for a, b in zip(*sides, strict=True))))
        p, q = (
            [math.prod(law.get(x, 0) for law, x in zip(side, seen, strict=True)) for seen in every]
            for side in sides
        )
        for one, other in ((p, q), (q, p)):
            short = sum(max(0, a * down - b * up) for a, b in zip(one, other, strict=True) if a)
            found = max(found, short)
    return Fraction(found, down * sum(step.noise.weights) ** len(moves))


@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
def test_neighbours_are_within_epsilon_and_delta(epsilon, delta):
    step = Agreement.selecting(epsilon, delta, DIRECT, ADD)
    assert step.delta <= delta
    exact = beyond(step, (COMES,), epsilon)
    assert exact <= Fraction(step.delta)
    # Hardly any of it is spare: what is told together is less likely than each.
    assert exact >= Fraction(step.delta) * (1 - Fraction(delta))


# What a unit of one, two or three keys gives to each, of the parts of its vote.
SHARED = {2: [(2,), (1, 1)], 3: [(6,), (3, 3), (2, 2, 2)]}


@pytest.mark.parametrize(
    ("keys", "given"), [(m, own) for m, every in SHARED.items() for own in every]
)
def test_keys_that_share_a_vote_are_within_epsilon_and_delta(keys, given):
    epsilon = {2: 6.0, 3: 24.0}[keys]
    step = Agreement.selecting(epsilon, 0.05, DIRECT, ADD, keys)
    exact = beyond(step, tuple((part, 0) for part in given), epsilon)
    assert exact <= Fraction(step.delta) <= Fraction(0.05)
    if len(given) == 1:  # the dearest: nothing of delta is spare
        assert exact >= Fraction(step.delta) * (1 - Fraction(0.05))


def test_an_expert_that_changes_takes_one_vote_back_and_gives_another():
    step = Agreement.selecting(12.0, 0.05, DIRECT, REPLACE, 2)
    for moves in (((2, 0), (0, 2)), ((1, 0), (1, 0), (0, 2)), ((2, 1), (0, 1))):
        assert beyond(step, moves, 12.0) <= Fraction(step.delta) <= Fraction(0.05)
    assert beyond(step, ((2, 0), (0, 2)), 11.0) > Fraction(0.05)


@pytest.mark.parametrize("keys", [2, 3])
def test_a_unit_of_one_key_weighs_as_if_no_unit_had_more(keys):
    """But for the grain of whole votes: one more may be needed, or one fewer."""
    for epsilon, delta in (*PRICES, (4.0, 1e-5)):
        one, several = (Agreement.selecting(epsilon, delta, DIRECT, ADD, m) for m in (1, keys))
        enough = [
            next(units for units in range(1, 10**4) if step.chance(units) >= 0.9)
            for step in (one, several)
        ]
        assert abs(enough[1] - enough[0]) <= 1
        assert several.parts % keys == 0


@pytest.mark.parametrize(
    ("stability", "adjacency"), [(DIRECT, REPLACE), (RANDOM_GROUPS, ADD), (Stability(0, 1), ADD)]
)
def test_an_expert_that_changes_moves_two_counts(stability, adjacency):
    step = Agreement.selecting(4.0, 1.2e-3, stability, adjacency)
    assert beyond(step, (COMES, GOES), 4.0) <= Fraction(step.delta) <= Fraction(1.2e-3)
    assert beyond(step, (COMES, GOES), 3.8) > Fraction(1.2e-3)


@pytest.mark.parametrize(
    ("stability", "adjacency"), [(RANDOM_GROUPS, REPLACE), (Stability(1, 1), ADD)]
)
def test_where_a_unit_moves_a_count_by_more_there_is_none(stability, adjacency):
    assert Agreement.selecting(4.0, 1e-3, stability, adjacency) is None
    assert Agreement.selecting(1e-4, 1e-3, DIRECT, ADD) is None


def with_noise(step: Agreement, noise: TruncatedGeometric) -> Agreement:
    return replace(step, noise=noise, threshold=1 + noise.highest)


@pytest.mark.parametrize(
    "fault",
    [
        lambda step: replace(step, threshold=step.threshold - 1),
        # Epsilon or delta of one count where two move.
        lambda step: with_noise(step, TruncatedGeometric.within(4.0, 6e-4)),
        lambda step: with_noise(step, TruncatedGeometric.within(2.0, 1.2e-3)),
        # Ends that are too likely.
        lambda step: with_noise(step, TruncatedGeometric(step.noise.weights[1:-1])),
    ],
    ids=["threshold", "epsilon", "delta", "ends"],
)
def test_faults_are_seen(fault):
    step = Agreement.selecting(4.0, 1.2e-3, DIRECT, REPLACE)
    assert beyond(fault(step), (COMES, GOES), 4.0) > Fraction(1.2e-3)


@pytest.mark.parametrize(
    "fault",
    [
        # A whole vote for each key; all of epsilon or of delta for a part.
        lambda step: with_noise(step, TruncatedGeometric.within(6.0, 0.01)),
        lambda step: with_noise(step, TruncatedGeometric.within(6.0, step.noise.delta)),
        lambda step: with_noise(step, TruncatedGeometric.within(3.0, 0.01)),
        lambda step: with_noise(step, TruncatedGeometric.within(3.0, 0.005)),
    ],
    ids=["both", "epsilon", "delta", "half of delta"],
)
def test_faults_of_a_shared_vote_are_seen(fault):
    step = Agreement.selecting(6.0, 0.01, DIRECT, ADD, 2)
    assert beyond(fault(step), ((2, 0),), 6.0) > Fraction(0.01)


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 8.0, 99.0, 1e4])
@pytest.mark.parametrize("delta", [0.4, 1e-3, 1e-10])
def test_weights_are_of_the_price_and_not_of_less(epsilon, delta):
    noise = TruncatedGeometric.within(epsilon, delta)
    weights = noise.weights
    assert weights == weights[::-1]
    most = Fraction(math.exp(min(epsilon, 100.0)))
    rising = pairwise(weights[: len(weights) // 2 + 1])
    assert all(0 < outer <= inner <= most * outer for outer, inner in rising)
    assert Fraction(weights[0], sum(weights)) <= Fraction(noise.delta) <= Fraction(delta)
    shorter = sum(weights) - weights[len(weights) // 2]
    assert len(weights) == 2 or Fraction(weights[0], shorter) > Fraction(delta)


class Given(Randomness):
    """A coin that falls as it is told."""

    def __init__(self, value):
        self.value = value

    def below(self, bound):
        self.bound = bound
        return self.value


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (0.2, 1e-2), (6.0, 1e-5)])
def test_each_value_is_drawn_by_as_many_coins_as_its_weight(epsilon, delta):
    noise = TruncatedGeometric.within(epsilon, delta)
    last = 0
    for value, end in zip(
        range(noise.highest, -(10**6), -1), accumulate(noise.weights), strict=False
    ):
        for coin in (last, end - 1):
            coins = Given(coin)
            assert noise.draw(coins) == value
            assert coins.bound == sum(noise.weights)
        last = end


def test_the_tail_and_the_reach_are_those_of_the_weights():
    noise = TruncatedGeometric.within(0.5, 1e-4)
    whole = sum(noise.weights)
    values = {
        noise.highest - at: Fraction(weight, whole) for at, weight in enumerate(noise.weights)
    }
    for least in range(-noise.highest - 2, noise.highest + 3):
        exact = sum(chance for value, chance in values.items() if value >= least)
        assert exact <= Fraction(noise.tail(least)) <= exact * (1 + Fraction(1, 10**15))
    near = [sum(c for v, c in values.items() if abs(v) <= noise.reach - less) for less in (0, 1)]
    assert near[0] >= Fraction(95, 100) > near[1]


def optimal(epsilon: float, delta: float, most: int) -> list[float]:
    """The largest chances of a release that are (epsilon, delta)-DP: Desfontaines et al., 2022."""
    found, factor = [0.0], math.exp(epsilon)
    for _ in range(most):
        p = found[-1]
        found.append(min(factor * p + delta, 1 - (1 - p - delta) / factor, 1.0))
    return found


@pytest.mark.parametrize(("epsilon", "delta"), [*PRICES, (4.0, 1e-5), (1.0, 1e-5)])
def test_no_selection_of_its_price_releases_more(epsilon, delta):
    step = Agreement.selecting(epsilon, delta, DIRECT, ADD)
    chances = [step.chance(units) for units in range(len(step.noise.weights) + 2)]
    best = optimal(epsilon, step.noise.delta, len(chances) - 1)
    assert chances == pytest.approx(best, abs=1e-9)
    # By the closed form up to one half: delta (e^(n epsilon) - 1) / (e^epsilon - 1).
    for units in range(len(step.noise.weights) // 2):
        grown = math.expm1(units * epsilon) / math.expm1(epsilon)
        assert chances[units] == pytest.approx(step.noise.delta * grown, rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.3, 1e-2), (1.0, 7.5e-6), (3.2, 1e-10), (8.0, 1e-5)]
)
def test_an_independent_library_selects_as_often(epsilon, delta):
    library = pytest.importorskip(
        "pydp.algorithms.partition_selection", reason="Google's python-dp is not installed"
    )
    step = Agreement.selecting(epsilon, delta, DIRECT, ADD)
    theirs = library.create_partition_strategy("truncated_geometric", epsilon, step.noise.delta, 1)
    units = range(len(step.noise.weights) + 2)
    found = [step.chance(number) for number in units]
    assert found == pytest.approx(list(map(theirs.probability_of_keep, units)), abs=1e-9)


@pytest.mark.parametrize(("adjacency", "moved"), [(ADD, 1), (REPLACE, 2)])
def test_its_rho_is_no_less_than_what_it_shows_off_the_ends(adjacency, moved):
    """Approximate zCDP: without an end of its noise, which has probability delta."""
    step = Agreement.selecting(2.0, 1e-2, DIRECT, adjacency)
    assert step.rho == pytest.approx(moved * zcdp(2.0 / moved))
    weights = step.noise.weights
    p, q = ([weight / sum(own) for weight in own] for own in (weights[:-1], weights[1:]))
    for order in (1.001, 1.5, 2.0, 8.0, 64.0):
        moments = math.fsum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))
        assert moved * math.log(moments) / (order - 1) <= order * step.rho


def test_the_most_frequent_key_comes_first(monkeypatch):
    monkeypatch.setattr(TruncatedGeometric, "draw", lambda *_: 0)
    step = Agreement.selecting(4.0, 1e-5, DIRECT, ADD)
    held = [("x", "x"), ("y",)] * step.threshold + [("y",)]
    found = step.draw(held, Given(0))
    assert [(one.key, one.count) for one in found] == [
        ("y", step.threshold + 1),
        ("x", step.threshold),
    ]
    assert {one.within for one in found} == {step.noise.reach}
    assert step.draw(held[2:-2], Given(0)) == []
    assert step.draw([], Given(0)) == []


class Choices(Randomness):
    """Coins of which every outcome is tried, one after the other."""

    def __init__(self):
        self.next, self.bounds, self.at = [], [], 0

    def below(self, bound):
        if self.at == len(self.next):
            self.next.append(0)
        self.bounds[self.at :] = [bound]
        self.at += 1
        return self.next[self.at - 1]

    def advance(self):
        """Whether there is another outcome."""
        self.at = 0
        while self.next and self.next[-1] == self.bounds[len(self.next) - 1] - 1:
            self.next.pop()
        if not self.next:
            return False
        self.next[-1] += 1
        return True


def released_law(step, held, monkeypatch):
    """The law of all that is told of some keys, over the coins that choose them and all noise."""
    shown, coins, law = replace(step, threshold=1), Choices(), {}
    with monkeypatch.context() as patched:
        patched.setattr(TruncatedGeometric, "draw", lambda *_: 0)
        more = True
        while more:
            counts = {one.key: one.count for one in shown.draw(held, coins)}
            chance = Fraction(1, math.prod(coins.bounds[: len(coins.next)]))
            for told in product(*(law_of(step, counts.get(key, 0)).items() for key in "xyz")):
                seen = tuple(value for value, _ in told)
                weight = math.prod(weight for _, weight in told)
                law[seen] = law.get(seen, 0) + chance * weight
            more = coins.advance()
    whole = Fraction(sum(step.noise.weights) ** 3)
    assert sum(law.values()) == whole
    return {seen: weight / whole for seen, weight in law.items()}


OTHERS = [("x",), ("y",), ("x", "y")]


@pytest.mark.parametrize("unit", [("x", "z"), ("x", "y"), ("z", "y", "x"), ("z",), ("x",)])
@pytest.mark.parametrize("keys", [1, 2])
def test_neither_coins_nor_shares_of_a_vote_cost_more(keys, unit, monkeypatch):
    step = Agreement.selecting(2.0, 0.05, DIRECT, ADD, keys)
    corpora = ([*OTHERS, unit], OTHERS)
    having, without = (released_law(step, held, monkeypatch) for held in corpora)
    factor = Fraction(math.exp(2.0)) * (1 - Fraction(1, 10**14))
    for p, q in ((having, without), (without, having)):
        short = sum(
            max(Fraction(0), chance - factor * q.get(seen, 0)) for seen, chance in p.items()
        )
        assert short <= Fraction(step.delta)


def test_every_key_of_a_unit_is_as_likely_to_count(monkeypatch):
    monkeypatch.setattr(TruncatedGeometric, "draw", lambda *_: 0)
    step = replace(Agreement.selecting(2.0, 0.05, DIRECT, ADD), threshold=1)
    found = [step.draw([("x", "x", "y", "z")], Given(at)) for at in range(3)]
    assert [[one.key for one in own] for own in found] == [["x"], ["y"], ["z"]]


def test_keys_of_a_unit_share_its_vote_alike(monkeypatch):
    monkeypatch.setattr(TruncatedGeometric, "draw", lambda *_: 0)
    step = replace(Agreement.selecting(2.0, 0.05, DIRECT, ADD, 3), threshold=1)
    held = [("x",), ("x", "y", "y"), ("z", "y", "x")]
    found = {one.key: one.count for one in step.draw(held, Given(0))}
    assert found == {"x": 6 + 3 + 2, "y": 3 + 2, "z": 2}


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0), (math.nan, 1e-6)]
)
def test_a_price_outside_its_range_is_one_clear_line(epsilon, delta):
    with pytest.raises(ConfigurationError):
        Agreement.selecting(epsilon, delta, DIRECT, ADD)


def test_the_exponential_is_rounded_down():
    for epsilon in (1e-3, 0.1, 1.0, 10.0, 99.9):
        mpmath = pytest.importorskip("mpmath")
        with mpmath.workdps(60):
            factor = math.exp(epsilon) * discrete_noise._ROUNDED_DOWN
            assert mpmath.mpf(factor) < mpmath.exp(mpmath.mpf(epsilon))
