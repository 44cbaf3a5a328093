"""Top counts of an enumeration: all that one shows is which steps it leaves to count."""

from __future__ import annotations

import math
from collections import defaultdict

from dpicl_rag.answering.ladder import Ladder
from dpicl_rag.mechanisms.private_counts import TopCount
from tests.support.scored_units import gaussian_pmf

REACH = 10  # sigmas; what is beyond is less likely than any outcome that is compared


def enumerate_top_counts(monkeypatch, seen, *, cheaper=True):
    """Make what a top count leaves a choice of the randomness, and note it.

    Args:
        monkeypatch: Puts the enumeration in the place of draws.
        seen: Gets what each top count has left, as it can be told from the prices that follow.
        cheaper: Whether cheaper steps may come first; else the last one is all that is left.
    """
    honest_top, honest_after = TopCount.draw, Ladder.after
    known: dict = {}
    same: dict = {}

    def left(self, drawn):
        if (self, drawn) not in known:
            steps = honest_after(self, drawn)
            steps = steps if cheaper else steps and self.steps
            alike = tuple((step.threshold, step.rho) for step in steps)
            known[self, drawn] = same.setdefault(alike, steps)
        return known[self, drawn]

    def draw(self, held, randomness):
        reach = math.ceil(REACH * self.noise.sigma)
        noise = gaussian_pmf(self.noise.sigma, reach, fine=self.noise.fine)
        with monkeypatch.context() as exact:
            exact.setattr(type(self.noise), "draw", lambda *_: 0)
            most = honest_top(self, held, randomness)
        return randomness, {most + shift: chance for shift, chance in noise.items()}

    def after(self, count):
        if isinstance(count, int):  # of a plan, which draws nothing
            return honest_after(self, count)
        randomness, law = count
        chances: dict = defaultdict(float)
        for drawn, chance in law.items():
            chances[left(self, drawn)] += chance
        steps = randomness.choose(list(chances.items()))
        seen.append(str([(step.threshold, step.rho) for step in steps]))
        return steps

    monkeypatch.setattr(TopCount, "draw", draw)
    monkeypatch.setattr(Ladder, "after", after)
