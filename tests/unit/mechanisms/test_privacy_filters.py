"""No unit and no budget ever passes its limit, and nothing tells how near it is."""

import math
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl_rag.errors import ConfigurationError, DPICLError
from dpicl_rag.ledger import Ledger, open_account
from dpicl_rag.mechanisms.privacy_filters import FixedFilter, IndividualFilter


def individual(limits: torch.Tensor) -> IndividualFilter:
    """Without a ledger; the public bounds play no part in what a unit may spend."""
    return IndividualFilter(limits, bound=10.0, worst=0.5)


def ranges_of(utilities: torch.Tensor) -> torch.Tensor:
    return utilities.amax(dim=1) - utilities.amin(dim=1)


@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=6),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-9, 1.0, 3.0, 1e9]),
)
@settings(max_examples=40, deadline=None)
def test_the_exact_sum_never_passes_the_limit(limits: list[float], seed: int, size: float) -> None:
    """Nor does a charge pass the public price of a draw."""
    generator = torch.Generator().manual_seed(seed)
    private = individual(torch.tensor(limits, dtype=torch.float64))
    sums = [Fraction(0)] * len(limits)
    for _ in range(60):
        ranges = torch.rand(len(limits), generator=generator, dtype=torch.float64) * size
        weights = private.weigh(lambda ranges=ranges: ranges)
        assert bool(((weights >= 0) & (weights <= 1)).all())
        before = private.spent
        private.pay()
        for unit, range_ in enumerate((weights * ranges).tolist()):
            sums[unit] += Fraction(range_) ** 2 / 8
        assert bool((private.spent - before <= 0.5 * (1 + 1e-12)).all())
    for spent, limit in zip(sums, limits, strict=True):
        assert spent <= Fraction(limit)


@given(st.floats(1e-4, 0.4), st.floats(0, 0.5), st.floats(0.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_what_is_set_aside_is_there_when_draws_have_spent_the_rest(
    aside: float, search: float, more: float
) -> None:
    """Through a ledger, which refuses a charge that passes a limit by a part in 10^12."""
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder, "ledger")) as ledger:
        whole = search + aside + more
        ledger.set_budget(corpus="mail", rho=9.0, unit_rho=whole)
        with open_account(ledger, corpus="mail", rho=whole, units=["a", "b"]) as account:
            account.pay(search, [search, search])
            (own,) = account.left([0], whole)
            limits = torch.tensor([own, aside / 2], dtype=torch.float64)
            private = IndividualFilter(
                limits,
                bound=whole,
                worst=2.0,
                aside=aside,
                account=account,
                places=[0, 1],
            )
            for _ in range(3):
                private.weigh(lambda: torch.full((2,), 4.0, dtype=torch.float64))
                private.pay()
            able = private.pay_aside(aside, torch.ones(2, dtype=torch.bool))
            assert able.tolist() == [own >= aside, False]
            spent = [Fraction(rho) for rho in private.spent.tolist()]
            assert spent[0] + Fraction(search) + Fraction(aside) * able[0].item() <= whole + 2e-9
            assert spent[1] == 0


def test_only_who_is_counted_pays_and_no_count_is_paid_that_was_not_set_aside(tmp_path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.set_budget(corpus="mail", rho=9.0, unit_rho=1.0)
        account = open_account(ledger, corpus="mail", rho=1.0, units=["a", "b"])
        limits = torch.ones(2, dtype=torch.float64)
        ours = {"account": account, "places": [0, 1]}
        private = IndividualFilter(limits, bound=1.0, worst=0.1, aside=0.5, **ours)
        assert private.pay_aside(0.25, torch.tensor([True, False])).tolist() == [True, False]
        assert private.pay_aside(0.25, torch.tensor([True, True])).tolist() == [True, True]
        assert private.rho == 0.5
        with pytest.raises(DPICLError, match="internal"):
            private.pay_aside(1e-9, torch.tensor([False, False]))
        account.close()
        with ledger.reserve(corpus="mail", rho=1.0, units=["a", "b"]) as held:
            assert held.limits == pytest.approx([0.5, 0.75])
    fixed = FixedFilter(1.0, 0.25, aside=0.5)
    nobody = torch.zeros(2, dtype=torch.bool)
    assert fixed.pay_aside(0.25, nobody) is nobody
    assert fixed.rho == 0.25
    with pytest.raises(DPICLError, match="internal"):
        fixed.pay_aside(0.3, nobody)


def test_draws_at_a_fixed_price_leave_what_is_set_aside() -> None:
    spend = FixedFilter(1.0, 0.4, aside=0.25)
    spend.pay()
    assert not spend.can_pay()
    spend.pay_aside(0.25, torch.ones(1, dtype=torch.bool))
    assert spend.rho == 0.65


def test_full_weight_until_the_budget_binds_then_what_is_left() -> None:
    private = individual(torch.tensor([1.0, 1.0, 0.0]))
    ranges = torch.tensor([0.0, 2.0, 2.0], dtype=torch.float64)
    assert private.weights(ranges).tolist() == [1.0, 1.0, 0.0]
    charges = private.charge(ranges * private.weights(ranges))
    assert charges.tolist() == [0.0, 0.5, 0.0]
    assert private.weights(ranges).tolist() == pytest.approx([1.0, 1.0, 0.0], abs=2e-6)
    private.charge(ranges * private.weights(ranges))
    assert private.weights(ranges).tolist() == pytest.approx([1.0, 0.0, 0.0], abs=2e-3)
    assert private.spent.tolist() == pytest.approx([0.0, 1.0, 0.0], rel=1e-5)


def test_a_scaled_expert_spends_what_is_left() -> None:
    private = individual(torch.tensor([0.125]))
    weights = private.weights(torch.tensor([4.0]))
    assert weights.item() == pytest.approx(0.25, rel=1e-5)
    assert private.charge(weights * 4.0).item() == pytest.approx(0.125, rel=1e-5)


def test_one_units_ranges_do_not_move_anothers_weight() -> None:
    alone, crowded = individual(torch.ones(1)), individual(torch.ones(3))
    for step in range(20):
        own = torch.tensor([0.3 * (step % 4)], dtype=torch.float64)
        others = torch.tensor([5.0, float(step)], dtype=torch.float64)
        everyone = torch.cat([own, others])
        mine, all_weights = alone.weights(own), crowded.weights(everyone)
        assert mine.item() == all_weights[0].item()
        alone.charge(own * mine)
        crowded.charge(everyone * all_weights)


@pytest.mark.parametrize("bad", [10.0, math.nan, math.inf, -1.0, -math.inf])
def test_no_range_of_one_unit_raises_or_touches_another(bad: float) -> None:
    """An error that one unit can cause would be a release with no bound."""
    private = individual(torch.tensor([0.5, 0.5]))
    for _ in range(40):
        weights = private.weigh(lambda: torch.tensor([0.1, bad]))
        assert weights is not None
        assert weights[0] == 1.0
        assert 0.0 <= weights[1] <= (0.2 if bad == 10 else 0.0)
        private.pay()
    assert private.spent[0] == pytest.approx(40 * 0.1**2 / 8)
    assert 0.0 <= private.spent[1] <= 0.5


def test_nothing_printed_tells_spend_or_numbers() -> None:
    private = individual(torch.tensor([0.5, 0.25, 0.125]))
    private.charge(torch.tensor([0.1, 0.2, 0.3]))
    fixed = FixedFilter(2.0, 0.7)
    fixed.pay()
    for shown in (repr(private), str(private), repr(fixed), str(fixed)):
        assert not any(character.isdigit() for character in shown)
    with pytest.raises(ConfigurationError) as raised:
        private.weights(torch.ones(4))
    assert not any(character.isdigit() for character in str(raised.value))


def test_spent_is_a_copy_and_limits_are_kept() -> None:
    limits = torch.tensor([1.0], dtype=torch.float64)
    private = individual(limits)
    limits.fill_(100.0)
    private.spent.fill_(-100.0)
    assert private.weights(torch.tensor([100.0])).item() < 0.03
    assert private.spent.item() == 0


def test_no_experts() -> None:
    private = individual(torch.zeros(0))
    assert private.weights(torch.zeros(0)).shape == (0,)
    assert private.charge(torch.zeros(0)).shape == (0,)


@pytest.mark.parametrize("limits", [[-0.1], [math.nan], [math.inf], [[1.0]]])
def test_limits_outside_their_range(limits: list[float]) -> None:
    with pytest.raises(ConfigurationError, match="limits"):
        individual(torch.tensor(limits))


def test_the_token_path_never_waits_for_the_device() -> None:
    """On the meta device no value exists: anything that reads one raises."""
    private = individual(torch.ones(3))
    for name in ("_limits", "_spent"):
        setattr(private, name, getattr(private, name).to("meta"))
    ranges = torch.ones(3, device="meta", dtype=torch.float64)
    charges = private.charge(ranges * private.weights(ranges))
    assert charges.device.type == "meta"
    assert charges.dtype == torch.float64


def test_a_draw_is_weighed_and_then_charged() -> None:
    private = individual(torch.tensor([1.0, 0.02], dtype=torch.float64))
    weights = private.weigh(lambda: torch.tensor([2.0, 2.0], dtype=torch.float64))
    assert weights is not None
    assert weights.tolist() == pytest.approx([1.0, 0.2], rel=1e-5)
    assert private.spent.tolist() == [0.0, 0.0]
    private.pay()
    assert private.spent.tolist() == pytest.approx([0.5, 0.02], rel=1e-5)


def test_the_public_figure_is_the_worst_draw_up_to_the_bound() -> None:
    private = IndividualFilter(torch.zeros(1), bound=1.3, worst=0.5, search_rho=0.25)
    told = [private.rho]
    for _ in range(3):
        assert private.can_pay()
        private.weigh(lambda: torch.ones(1))
        private.pay()
        told.append(private.rho)
    # Nothing was spent, and the figure does not say so.
    assert told == [0.25, 0.75, 1.25, 1.3]


@given(st.integers(1, 60), st.floats(0, 1), st.floats(0, 1), st.floats(0, 10))
def test_fixed_sums_are_exact(draws: int, spent: float, cost: float, budget: float) -> None:
    fixed = FixedFilter(budget, cost, search_rho=spent)
    paid = Fraction(spent)
    for _ in range(draws):
        covered = paid + Fraction(cost) <= Fraction(budget)
        assert fixed.can_pay() == covered
        if covered:
            fixed.pay()
            paid += Fraction(cost)
        else:
            with pytest.raises(DPICLError):
                fixed.pay()
    assert paid <= Fraction(fixed.rho) <= max(Fraction(budget), Fraction(spent))


def test_fixed_budget_refuses_and_keeps_its_state() -> None:
    fixed = FixedFilter(1.0, 0.5, search_rho=0.25)
    assert fixed.weigh(lambda: pytest.fail("a fixed charge looks at no ranges")) is None
    fixed.pay()
    assert not fixed.can_pay()
    with pytest.raises(DPICLError) as raised:
        fixed.pay()
    assert not any(character.isdigit() for character in str(raised.value))
    assert fixed.rho == 0.75
    assert FixedFilter(0.0, 0.0).can_pay()


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_fixed_arguments_outside_their_range(value: float) -> None:
    with pytest.raises(ConfigurationError, match="budget"):
        FixedFilter(value, 0.5)
    with pytest.raises(ConfigurationError, match="cost"):
        FixedFilter(1.0, value)
    with pytest.raises(ConfigurationError, match="search_rho"):
        FixedFilter(1.0, 0.5, search_rho=value)
