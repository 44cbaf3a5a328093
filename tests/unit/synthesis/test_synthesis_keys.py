"""Counts of words: what a unit moves is what it pays for, in the list and in the trie."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from fractions import Fraction

import pytest

from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.synthesis import key_words as room
from dpicl_rag.synthesis.key_words import Trie, WordList, noise_for, noisy_counts

QUIET = DiscreteGaussian(1e-3)  # hardly ever anything but 0
WORDS = ("aa", "ab", "b", "bab", "bb", "abab")
MOST = 2  # words of a unit


def corpora():
    """Small corpora, each with every neighbour: one unit more, one fewer, another in its place."""
    every = [frozenset(own) for n in range(MOST + 1) for own in itertools.combinations(WORDS, n)]
    draw = random.Random(3)
    for _ in range(12):
        units = [draw.choice(every) for _ in range(3)]
        yield units, [*units, draw.choice(every)]
        yield units, units[1:]
        yield units, [draw.choice(every), *units[1:]]


class Rounds:
    """Counts as they are before the noise, and what each unit is charged for."""

    def __init__(self, released):
        self.counts: dict[str, Counter[str]] = {}
        self.charged: list[int] = []
        self.rounds: list[list[int]] = []
        self._released = released

    def __call__(self, name, candidates, own, noise):
        candidates = list(candidates)
        self.counts[name] = Counter(c for counted in own for c in counted)
        assert set(self.counts[name]) <= set(candidates)  # nothing is counted but what is public
        charges = []
        noisy_counts(candidates, own, noise, charges.append, Randomness())
        self.rounds.append(charges[0])
        sums = itertools.zip_longest(self.charged, charges[0], fillvalue=0)
        self.charged = [before + now for before, now in sums]
        # Both neighbours go on from the same released numbers, whatever their counts are.
        return [(c, self._released.get(c, 0)) for c in candidates if c in self._released]


def squared_distance(one: Rounds, other: Rounds) -> int:
    """Of the counts of all rounds: noise of sigma on each makes it cost this by 2 sigma^2."""
    assert list(one.counts) == list(other.counts)
    return sum(
        (one.counts[name][c] - other.counts[name][c]) ** 2
        for name in one.counts
        for c in one.counts[name] | other.counts[name]
    )


def compare(counted, units, neighbour, released):
    """Counts of two corpora under the same releases, and what the unit that differs pays."""
    one, other = Rounds(released), Rounds(released)
    counted.release(units, one)
    counted.release(neighbour, other)
    return one, other


TRIE = Trie(QUIET, levels=2, kept=3, alphabet="ab")
FOLLOWED = ({}, {"aa": 5, "ab": 4, "bb": 2, "ba": 9, "a$": 1}, {"ab": 4, "ba": 3})


@pytest.mark.parametrize("counted", [WordList(WORDS[:4], QUIET), TRIE], ids=["list", "trie"])
@pytest.mark.parametrize("released", FOLLOWED)
def test_what_a_unit_moves_is_what_it_pays_for(counted, released):
    levels = 1 if isinstance(counted, WordList) else counted.levels
    for units, neighbour in corpora():
        one, other = compare(counted, units, neighbour, released)
        moved = squared_distance(one, other)
        if len(units) == len(neighbour):  # replaced: what goes and what comes
            assert moved <= one.charged[0] + other.charged[0]
            continue
        (longer,) = [r for r in (one, other) if len(r.charged) == max(len(units), len(neighbour))]
        paid = longer.charged[-1 if longer is other else 0]
        assert moved == paid <= MOST * levels


def test_the_bound_is_reached():
    """sqrt(K D) is no looser than it need be: two words that part at once, followed to the end."""
    one, other = compare(TRIE, [], [{"abab", "bab"}], {"ab": 4, "ba": 3})
    assert squared_distance(one, other) == MOST * TRIE.levels


def test_no_round_costs_more_than_its_public_price():
    for units, _ in corpora():
        rounds = Rounds({"ab": 1, "ba": 1, "aa": 1})
        TRIE.release(units, rounds)
        assert all(counted <= MOST for charges in rounds.rounds for counted in charges)


def test_noise_costs_what_is_planned():
    for rho, counts in ((0.0369, 3), (0.0861, 21), (1.7, 1)):
        noise = noise_for(rho, counts)
        assert counts * Fraction(noise.rho) <= Fraction(rho)
        assert counts * noise.rho == pytest.approx(rho, rel=1e-9)


def test_every_candidate_gets_noise_whether_or_not_it_is_there(monkeypatch):
    drawn = []
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, coins: drawn.append(1) or 100)
    passed = noisy_counts(
        ["here", "not"], [{"here"}], DiscreteGaussian(2.0), lambda c: None, Randomness()
    )
    assert passed == [("here", 101), ("not", 100)]
    assert len(drawn) == 2


def test_it_is_paid_before_it_is_released():
    def refuse(counts):
        raise RuntimeError("no budget")

    with pytest.raises(RuntimeError):
        noisy_counts(["a"], [{"a"}], QUIET, refuse, Randomness())


def test_words_that_many_units_have_come_out():
    units = [{"zingpocketosis", "fever"}] * 60 + [{"zingpocketitis"}] * 60 + [{"rare"}] * 3
    trie = Trie(DiscreteGaussian(2.0), levels=7, kept=20, alphabet="abcdefghijklmnopqrstuvwxyz")

    def count(name, candidates, own, noise):
        return noisy_counts(candidates, own, noise, lambda c: None, Randomness())

    found = {key.word: key.count for key in trie.release(units, count)}
    assert {"zingpocketosis", "zingpocketitis", "fever"} <= set(found)
    assert "rare" not in found
    assert found["fever"] == pytest.approx(60, abs=16)
    assert trie.known_by("zingpocketosisabc") == "zingpocketosis"


class TestPlantedFaults:
    """Each breaks what a test above guards, and must be seen."""

    def test_a_forgotten_noise_is_seen(self, monkeypatch):
        monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, coins: 0)
        drawn = {
            tuple(noisy_counts(["a"], [{"a"}] * 90, DiscreteGaussian(3.0), len, Randomness()))
            for _ in range(30)
        }
        assert len(drawn) == 1  # with noise it is many: test_counts_differ_from_draw_to_draw

    def test_counts_of_what_the_data_hold_are_seen(self, monkeypatch):
        """Candidates that are a unit's own words are no public set."""

        def from_data(self, units, count):
            own = [frozenset(words) for words in units]
            count("list", sorted(frozenset().union(*own)), own, self.noise)

        monkeypatch.setattr(WordList, "release", from_data)
        offered = []
        for units in ([{"aa"}], [{"aa"}, {"zebra"}]):
            WordList(WORDS, QUIET).release(units, lambda n, c, o, s: offered.append(list(c)) or [])
        with pytest.raises(AssertionError):
            same_candidates(offered)

    def test_a_unit_that_counts_twice_is_seen(self, monkeypatch):
        monkeypatch.setattr(
            room,
            "Counter",
            lambda nodes: Counter({c: 2 * n for c, n in Counter(nodes).items()}),
        )
        assert dict(noisy_counts(["a"], [{"a"}], QUIET, len, Randomness())) != {"a": 1}


def same_candidates(offered):
    assert all(candidates == offered[0] for candidates in offered)


def test_candidates_do_not_depend_on_the_data():
    for counted in (WordList(WORDS, QUIET), TRIE):
        for units, neighbour in corpora():
            offered: list[list[list[str]]] = []
            for some in (units, neighbour):
                rounds: list[list[str]] = []

                def count(name, candidates, own, noise, rounds=rounds):
                    rounds.append(list(candidates))
                    return [(c, 9) for c in candidates if c in ("ab", "aa")]

                counted.release(some, count)
                offered.append(rounds)
            same_candidates(offered)


def test_counts_differ_from_draw_to_draw():
    drawn = {
        tuple(noisy_counts(["a"], [{"a"}] * 90, DiscreteGaussian(3.0), len, Randomness()))
        for _ in range(30)
    }
    assert len(drawn) > 1
