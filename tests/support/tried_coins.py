"""Coins whose every outcome is tried, for samplers that repeat rounds until one ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from types import ModuleType
from typing import TypeVar

import pytest

from dpicl_rag.mechanisms.randomness import Randomness
from tests.support.scored_units import Choose

Outcome = TypeVar("Outcome", bound=Hashable)

AGAIN = 10**9
"""Stands for a round that ends without a number; the sampler then starts afresh."""


class Again(Exception):
    """A second round has begun."""


class Tried(Randomness):
    """Coins whose every outcome `distribution` tries."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def below(self, bound: int) -> int:
        return self.choose([(value, 1 / bound) for value in range(bound)])


class OneRound(Tried):
    """As `Tried`, for a sampler whose rounds begin with a number below ``bound``."""

    def __init__(self, choose: Choose, bound: int) -> None:
        super().__init__(choose)
        self._bound = bound
        self._rounds = 0

    def below(self, bound: int) -> int:
        self._rounds += bound == self._bound
        if self._rounds > 1:
            raise Again
        return super().below(bound)


def one_round(run: Callable[[Choose], int], choose: Choose) -> int:
    """What one round gives."""
    try:
        return run(choose)
    except Again:
        return AGAIN


def given_an_end(found: dict[int, float]) -> dict[int, float]:
    """Distribution of a sampler that repeats rounds, from that of one round."""
    ends = 1 - found[AGAIN]
    return {value: chance / ends for value, chance in found.items() if value != AGAIN}


def ideal_bernoulli(monkeypatch: pytest.MonkeyPatch, module: ModuleType, choose: Choose) -> None:
    """Replace a module's Bernoulli draws, tested elsewhere, by single choices."""

    def bernoulli(exponent: Fraction, randomness: Randomness) -> bool:
        chance = math.exp(-exponent)
        return bool(choose([(1, chance), (0, 1 - chance)]))

    monkeypatch.setattr(module, "bernoulli_exp", bernoulli)
