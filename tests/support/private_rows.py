"""Small private tables, all their neighbours, and the exact price of a release between two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

import pytest

from dpicl_rag.accounting import Adjacency
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian, DiscreteLaplace
from dpicl_rag.tabular.schema import Category, Label, Number, Row, Schema

SCHEMA = Schema(
    columns=(
        Number("age", 0, 100, (30, 60), decimals=0),
        Category("job", ("clerk", "smith"), {"teller": "clerk"}, {"clerk": "a clerk"}),
        Number("gain", -10, 40, (0,), typical=(-5, 20)),
    ),
    label=Label("rich", ("No", "Yes"), {"0": "No", "1": "Yes"}),
    text="{age} years, {job}, gain {gain}.",
    question="Rich?",
    group_by=("job",),
)

EVERY_ROW: list[Row] = [
    {"age": age, "job": job, "gain": gain, "rich": rich}
    for age, job, gain, rich in product(
        (45, "1e9", "?"), ("smith", "teller", "spy"), (-5, 10**6), ("0", "1", "maybe")
    )
]

BASE: list[Row] = [
    {"age": 20, "job": "clerk", "gain": -5, "rich": "0"},
    {"age": 45, "job": "smith", "gain": 7, "rich": "1"},
    {"age": 70, "job": "spy", "gain": 40, "rich": "1"},
    {},
]

Rows = Sequence[Row]
Release = Callable[[Rows], Sequence[int]]
"""From private rows to whole numbers, each with noise of its own."""


def neighbours(adjacency: Adjacency, base: Rows = BASE) -> Iterator[tuple[Rows, Rows]]:
    """Every pair with ``base``, in both directions where they differ."""
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        for row in EVERY_ROW:
            yield base, [*base, row]
        for at in range(len(base)):
            yield base, [*base[:at], *base[at + 1 :]]
        yield [], [EVERY_ROW[0]]
        return
    for at, row in product(range(len(base)), EVERY_ROW):
        yield base, [*base[:at], row, *base[at + 1 :]]
    for name in ("age", "job", "gain", "rich"):  # one cell of one row
        for row in EVERY_ROW:
            changed: Mapping[str, object] = {**base[1], name: row[name]}
            yield base, [base[0], changed, *base[2:]]


def dearest(release: Release, adjacency: Adjacency, base: Rows = BASE) -> float:
    """Largest price over all neighbours: pure epsilon, or rho where the noise is Gaussian."""
    return max(price(release, *pair) for pair in neighbours(adjacency, base))


def price(release: Release, one: Rows, other: Rows) -> float:
    """Exact pure epsilon between two tables, or rho where the noise is Gaussian.

    Noise is replaced by 0 and noted, so the numbers are those that it is added to. Independent
    noise on numbers that move by d costs the sum of ``epsilon |d|``, or of ``d^2 / (2 sigma^2)``,
    and no less. Where the tables differ in how many numbers they release, or in their noise, the
    price is infinite.
    """
    a, noise = _exact(release, one)
    b, other_noise = _exact(release, other)
    if noise != other_noise or len(a) != len(b):
        return math.inf
    # Numbers without noise of their own must not differ.
    if len(a) != len(noise):
        return math.inf
    total = Fraction(0)
    for x, y, (kind, scale) in zip(a, b, noise, strict=True):
        moved = abs(Fraction(x) - Fraction(y))
        total += moved * scale if kind == "laplace" else moved**2 / (2 * scale**2)
    return float(total)


def _exact(release: Release, rows: Rows) -> tuple[list[int], list[tuple[str, Fraction]]]:
    noted: list[tuple[str, Fraction]] = []

    def laplace(noise: DiscreteLaplace, _randomness: object) -> int:
        noted.append(("laplace", noise.epsilon))
        return 0

    def gaussian(noise: DiscreteGaussian, _randomness: object) -> int:
        noted.append(("gaussian", Fraction(noise.sigma)))
        return 0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DiscreteLaplace, "draw", laplace)
        patched.setattr(DiscreteGaussian, "draw", gaussian)
        return list(release(rows)), noted
