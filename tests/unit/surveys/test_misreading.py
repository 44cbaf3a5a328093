"""A count is corrected for what a model misreads, by Rogan and Gladen, and its interval with it."""

import math
import random

from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.rehearsal import Reading
from dpicl_rag.rehearsal.yes_or_no import MeasuredRate
from dpicl_rag.surveys.misreading import corrected

SURE = DiscreteGaussian(0.01)


def reading(yes, no, of_yes=0.0, of_no=0.0):
    return Reading(0.0, MeasuredRate(yes, of_yes), MeasuredRate(no, of_no))


def test_a_count_is_that_of_a_hand_computation():
    # 30 of 100 are read as yes; (30 - 0.05 * 100) / 0.85 = 29.4 of them are.
    found = corrected(30, 100, DiscreteGaussian(2.0), DiscreteGaussian(10.0), reading(0.9, 0.95))
    true = 25 / 0.85
    by_chance = true * 0.9 * 0.1 + (100 - true) * 0.95 * 0.05
    reach = 1.96 * math.sqrt(4 + 0.05**2 * 100 + by_chance) / 0.85
    assert found.units == 29
    assert (found.low, found.high) == (math.floor(true - reach), math.ceil(true + reach))


def test_what_is_not_known_of_the_rates_widens_it_with_the_number_of_units():
    narrow = corrected(30, 1000, SURE, SURE, reading(0.9, 0.99))
    wide = corrected(30, 1000, SURE, SURE, reading(0.9, 0.99, of_no=0.01**2))
    assert wide.units == narrow.units
    assert wide.high - wide.units > narrow.high - narrow.units + 5
    assert wide.high - wide.units >= 1.96 * 0.01 * 970 / 0.89


def test_a_model_that_is_always_right_leaves_the_noise():
    found = corrected(30, 100, DiscreteGaussian(2.0), DiscreteGaussian(10.0), reading(1.0, 1.0))
    assert (found.units, found.low, found.high) == (30, 26, 34)


def test_rates_that_differ_much_between_questions_are_no_correction():
    assert reading(0.9, 0.95, of_yes=0.1**2).countable
    assert not reading(0.9, 0.95, of_yes=0.4**2).countable


def test_fewer_than_are_misread_are_none():
    found = corrected(2, 100, DiscreteGaussian(2.0), DiscreteGaussian(10.0), reading(0.9, 0.95))
    assert (found.units, found.low) == (0, 0)
    assert found.high >= 5


def test_a_sample_is_scaled_and_its_coins_widen_it():
    whole = corrected(30, 100, SURE, SURE, reading(0.9, 0.95))
    part = corrected(15, 50, SURE, SURE, reading(0.9, 0.95), rate=0.5)
    assert part.units == whole.units
    assert part.high - part.low > whole.high - whole.low


def test_the_true_number_is_inside_95_times_in_100():
    """Models whose rates differ from question to question, noise, and chance of every unit."""
    dice, inside = random.Random(3), 0
    of_yes, of_no = 0.03, 0.02
    for _ in range(1000):
        yes, no = dice.gauss(0.9, of_yes), dice.gauss(0.95, of_no)
        read = sum(dice.random() < yes for _ in range(40))
        read += sum(dice.random() >= no for _ in range(160))
        found = corrected(
            round(read + dice.gauss(0, 2)),
            round(200 + dice.gauss(0, 10)),
            DiscreteGaussian(2.0),
            DiscreteGaussian(10.0),
            reading(0.9, 0.95, of_yes**2, of_no**2),
        )
        inside += found.low <= 40 <= found.high
    assert 930 <= inside <= 985
