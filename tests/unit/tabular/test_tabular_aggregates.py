"""Aggregates: their price between all neighbours, sampling, and planted faults."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from dpicl_rag.accounting import Adjacency, zcdp
from dpicl_rag.accounting.pure_dp import amplified_epsilon
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms.discrete_noise import DiscreteLaplace
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.tabular import aggregates as room
from dpicl_rag.tabular.aggregates import (
    GRID,
    Aggregates,
    AggregatesPlan,
    Group,
    measured,
    offset,
    release_aggregates,
)
from dpicl_rag.tabular.schema import Number
from dpicl_research.published_sampling import AMPLIFICATION, EPSILONS
from tests.support.private_rows import BASE, SCHEMA, dearest, price
from tests.support.scored_units import distribution
from tests.support.tried_coins import Tried

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
EXTREME = [*BASE, {"age": 0, "job": "clerk", "gain": -10, "rich": "0"}]
GROUPS = [(), ("rich",), ("rich", "job"), ("job", "age", "rich")]


def numbers(groups):
    return [
        number
        for group in groups
        for part in ((group.count,), *group.columns, group.label)
        for number in part
    ]


def release(adjacency=ADD, group_by=("rich",), epsilon=1.0):
    def run(rows):
        return numbers(
            release_aggregates(rows, SCHEMA, epsilon, group_by, adjacency=adjacency).groups
        )

    return run


@pytest.mark.one_in(3)
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("group_by", GROUPS)
def test_the_price_is_met(adjacency, group_by):
    found = dearest(release(adjacency, group_by, 3.0), adjacency, EXTREME)
    # An end of the bounds is a whole distance away from the middle, so the price is met.
    # One group's count stays as it is where a row is replaced by another.
    parts = 4 / 5 if adjacency is REPLACE and not group_by else 1
    assert found == pytest.approx(3.0 * parts, rel=1e-12)


def test_a_ledger_is_charged_the_sum_of_parts(tmp_path):
    plan = AggregatesPlan(SCHEMA, ("rich",), 1.0)
    assert plan.rho == pytest.approx(4 * zcdp(0.25))
    sampled = AggregatesPlan(SCHEMA, ("rich",), 1.0, rate=0.5)
    assert sampled.rho == zcdp(1.0)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="people", rho=1.0)
        release_aggregates(BASE, SCHEMA, 1.0, ledger=ledger, corpus="people")
        release_aggregates(BASE, SCHEMA, 1.0, rate=0.5, ledger=ledger, corpus="people")
        (status,) = ledger.status()
    assert status.spent == pytest.approx(plan.rho + sampled.rho, abs=1e-8)


@pytest.mark.parametrize("value", [-(10**9), -10, 0, 15, 39.99, 40, 10**9, math.inf, None])
def test_distances_stay_on_the_grid(value):
    assert -GRID <= offset(SCHEMA.columns[2], value) <= GRID
    far = Number("far", 1e16, 1e16 + 4, (1e16 + 2,))  # where floats are two apart
    assert offset(far, value) in (-GRID, GRID)
    assert offset(far, 1e16 + 2) == 0


# Sampling.


def count_after(rows, plan, coins_of):
    """Exact distribution of the one count that is looked at, before noise, over all coins."""

    def run(choose):
        return len(coins_of(rows, plan.rate, Tried(choose)))

    return distribution(run)


def log_ratio(one, other, epsilon):
    """Largest log ratio between counts with Laplace noise: mixtures of shifted ones."""

    def density(found, at):
        return math.fsum(chance * math.exp(-epsilon * abs(at - n)) for n, chance in found.items())

    places = range(-3, 12)
    return max(abs(math.log(density(one, at) / density(other, at))) for at in places)


@pytest.mark.parametrize("rate", [0.5, 0.25])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_sampling_amplifies_as_charged_and_no_more(rate, epsilon):
    plan = AggregatesPlan(SCHEMA, ("rich",), epsilon, rate)
    before = plan.epsilon_of_sample
    assert before > epsilon
    assert plan.charge.epsilon == before
    found = max(
        log_ratio(
            count_after(range(n), plan, room._sample),
            count_after(range(n + 1), plan, room._sample),
            before,
        )
        for n in range(4)
    )
    assert found == pytest.approx(epsilon, rel=1e-6)
    assert amplified_epsilon(before, rate) <= epsilon


def test_amplification_at_the_size_of_the_table_is_found():
    """A fixed number of rows over how many there are: with fewer rows the rate is another."""

    def by_size(rows, rate, coins):
        public_rows = 4
        return room._sample(rows, min(1.0, rate * public_rows / max(1, len(rows))), coins)

    plan = AggregatesPlan(SCHEMA, ("rich",), 1.0, 0.25)
    found = log_ratio(
        count_after(range(0), plan, by_size),
        count_after(range(1), plan, by_size),
        plan.epsilon_of_sample,
    )
    assert found > 2.0


def test_a_charge_at_another_rate_is_found():
    """What the sample costs is worked out with a smaller rate than its coins have."""
    charged = AggregatesPlan(SCHEMA, ("rich",), 1.0, 0.1).epsilon_of_sample
    plan = AggregatesPlan(SCHEMA, ("rich",), 1.0, 0.5)
    one, other = (count_after(range(n), plan, room._sample) for n in (0, 1))
    assert log_ratio(one, other, charged) > 2.0


def test_coins_have_exactly_the_rate():
    drawn = []

    class Watched(Randomness):
        def below(self, bound):
            drawn.append(bound)
            return 0

    assert room._sample([1, 2], 0.1, Watched()) == [1, 2]
    assert drawn == [Fraction(0.1).denominator] * 2


def test_a_run_on_a_sample_reads_the_sample_alone(monkeypatch):
    monkeypatch.setattr(DiscreteLaplace, "draw", lambda *_: 0)

    class Heads(Randomness):
        def __init__(self):
            self.tosses = 0

        def below(self, bound):
            self.tosses += 1
            return 0 if self.tosses in (1, 3) else bound - 1

    found = release_aggregates(BASE, SCHEMA, 1.0, rate=0.5, randomness=Heads())
    assert [group.count for group in found.groups] == [1, 1]
    assert found.epsilon_of_sample == pytest.approx(math.log1p(2 * math.expm1(1.0)))
    assert found.rate == 0.5


def test_the_paper_s_table_of_amplification():
    """What stands in the paper, with its misprints marked."""
    expected = {
        0.1: (0.159, 2.756, 7.698, 22.697, 47.697),
        3300 / 16512: (0.295, 3.416, 8.390, 23.390, 48.390),
        0.5: (0.620, 4.314, 9.307, 24.307, 49.307),
        300 / 598: (0.622, 4.317, 9.310, 24.310, 49.310),
    }
    misprints = 0
    for line in AMPLIFICATION:
        found = [line.epsilon(before) for before in EPSILONS]
        words = []
        for before, epsilon in zip(EPSILONS, found, strict=True):
            printed = line.printed.get(before)
            words.append(f"{epsilon:.3f}" + (f" (printed {printed:.3f})" if printed else ""))
            if printed:
                misprints += 1
                assert abs(printed - epsilon) > 0.3
        print(f"{line.name:10} rate {line.rate:.3f}: {'  '.join(words)}")  # noqa: T201
        assert found == pytest.approx(expected[line.rate], abs=6e-4)
    assert misprints == 2


# Planted faults.


def test_no_clipping_is_found(monkeypatch):
    monkeypatch.setattr(Number, "clamped", lambda _column, value: float(value or 0))
    rows = [row for row in BASE if row]
    assert price(release(), rows, [*rows, {**BASE[0], "gain": 10**6}]) > 1e4


def test_shifted_bounds_are_found(monkeypatch):
    """As published: each column is divided by the bounds of the one before it."""
    own = room.offset

    def shifted(column, value):
        bounds = {"age": 100, "gain": 0.5}[column.name]
        return own(replace(column, low=-bounds, high=bounds, cuts=(0,), typical=()), 0) + round(
            GRID * column.clamped(value) / bounds
        )

    monkeypatch.setattr(room, "offset", shifted)
    assert price(release(), BASE, BASE[:2]) > 10.0


def test_the_width_as_sensitivity_of_a_plain_sum_is_found(monkeypatch):
    """Sums from 0, not from the middle: a row that comes moves them by its own size."""
    monkeypatch.setattr(
        room,
        "offset",
        lambda column, value: round(GRID * column.clamped(value) / (column.high - column.low) * 2),
    )
    assert price(release(), BASE, [*BASE, {"age": 100, "gain": 40, "rich": "1"}]) > 1.2


def test_a_support_of_values_that_somebody_has_is_found(monkeypatch):
    def only_there(rows, plan, randomness):
        groups = measured(rows, plan, randomness)
        return tuple(
            replace(group, columns=tuple(tuple(n for n in c if n) for c in group.columns))
            for group in groups
        )

    monkeypatch.setattr(room, "measured", only_there)
    assert dearest(release(), ADD) == math.inf


def test_groups_from_the_data_are_found(monkeypatch):
    def only_there(rows, plan, randomness):
        return tuple(g for g in measured(rows, plan, randomness) if g.count)

    monkeypatch.setattr(room, "measured", only_there)
    assert dearest(release(), ADD) == math.inf


def test_a_replacement_charged_as_an_arrival_is_found():
    def cheap(rows):
        return release(ADD)(rows)

    assert dearest(cheap, REPLACE, EXTREME) == pytest.approx(2.0)


# What follows from a release.


def test_rows_are_means_and_most_frequent_values(monkeypatch):
    monkeypatch.setattr(DiscreteLaplace, "draw", lambda *_: 0)
    found = release_aggregates(BASE, SCHEMA, 1.0)
    no, yes = found.rows
    assert no == {
        "age": pytest.approx(20, abs=1e-3),
        "job": "clerk",
        "gain": pytest.approx(-5, abs=1e-3),
        "rich": "No",
    }
    assert yes["age"] == pytest.approx(57.5, abs=1e-2)
    assert yes["gain"] == pytest.approx(23.5, abs=1e-2)
    (whole,) = release_aggregates(BASE, SCHEMA, 1.0, ()).rows
    assert whole["rich"] == "Yes"
    four = release_aggregates(BASE, SCHEMA, 1.0, ("rich", "job"))
    assert [group.key for group in four.groups] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(four.rows) == 4
    assert found.to_json()["rate"] == 1.0


def test_means_stay_within_the_bounds_whatever_the_noise():
    for count, total in ((-5, 10**9), (0, -(10**9)), (10**6, 3), (1, 0)):
        group = Group((0,), count, ((total,), (0, 0, -1), (total,)), ())
        (row,) = Aggregates(SCHEMA, ("rich",), (group,), 1.0, 1.0, 1.0, 0.1).rows
        assert 0 <= row["age"] <= 100
        assert -10 <= row["gain"] <= 40
        assert row["job"] == "clerk"
    empty = release_aggregates([], SCHEMA, 1.0, ("rich", "age"))
    assert len(empty.rows) == 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rate": "0.5"}, "fixed beforehand"),
        ({"rate": True}, "fixed beforehand"),
        ({"rate": 0}, "at most 1"),
        ({"rate": 1.5}, "at most 1"),
        ({"rate": 0.5, "adjacency": REPLACE}, "add-or-remove"),
        ({"group_by": ("wage",)}, "no column 'wage'"),
        ({"group_by": ("rich", "rich")}, "twice"),
        ({"epsilon": 0}, "epsilon"),
    ],
)
def test_what_is_refused(change, said):
    given = {"epsilon": 1.0, "group_by": ("rich",), **change}
    with pytest.raises(ConfigurationError, match=said):
        release_aggregates(BASE, SCHEMA, **given)


def test_large_epsilons_do_not_overflow():
    plan = AggregatesPlan(SCHEMA, (), 800.0, 0.5)
    assert plan.epsilon_of_sample == pytest.approx(800 + math.log(2))
