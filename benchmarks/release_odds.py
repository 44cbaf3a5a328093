"""The exact odds of an answer by agreement: no noise is drawn.

Given what each expert would vote for, the probability that a key wins a noisy count and reaches
its threshold is a sum over the noise on it of what is left to the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from dpicl_rag.answering.canonical_form import SentenceVote
from dpicl_rag.answering.ladder import Ladder
from dpicl_rag.mechanisms.private_counts import Agreement


def odds(
    ladder: Ladder, votes: Sequence[SentenceVote | None], right: Callable[[str], bool]
) -> tuple[float, float, float]:
    """Probability of a right release, of a wrong one, and mean rho that the counts cost a unit.

    Args:
        ladder: Counts of whole answers.
        votes: Of the units that are asked.
        right: Whether a released form is right.
    """
    cast = [vote for vote in votes if vote is not None]
    share = len(cast) / max(1, len(votes))
    if ladder.top is None:
        good, bad, rho = _climbed(ladder.steps, cast, right)
        return good, bad, share * rho
    good = bad = 0.0
    rho, noise = ladder.top.rho, ladder.top.noise
    most = max(Counter(vote.short for vote in cast).values(), default=0)
    reach = round(8 * noise.sigma)
    chances: dict[tuple[Agreement, ...], float] = defaultdict(float)
    for drawn in range(-reach, reach + 1):
        chances[ladder.after(most + drawn)] += noise.tail(drawn) - noise.tail(drawn + 1)
    for steps, chance in chances.items():
        found = _climbed(steps, cast, right)
        good, bad, rho = good + chance * found[0], bad + chance * found[1], rho + chance * found[2]
    return good, bad, share * rho


def _climbed(
    steps: Sequence[Agreement], cast: Sequence[SentenceVote], right: Callable[[str], bool]
) -> tuple[float, float, float]:
    """The odds of some steps, and what they cost a unit that has a vote."""
    good = bad = rho = 0.0
    reached = 1.0
    for at, step in enumerate(steps):
        whole = at == 0 and len(steps) > 1
        counts = Counter(vote.sentence if whole else vote.short for vote in cast)
        rho += reached * step.rho
        wins = {key: _wins(step, counts, key) for key in counts}
        good += reached * sum(won for key, won in wins.items() if right(key))
        bad += reached * sum(won for key, won in wins.items() if not right(key))
        reached *= 1 - sum(wins.values())
    return good, bad, rho


def _wins(step: Agreement, counts: Counter[str], key: str) -> float:
    """Probability that a key has the largest noisy count, and that it reaches the threshold."""
    most = max(counts.values()) + 5 * step.noise.reach + 2
    whole = 0.0
    for noisy in range(step.threshold, max(most, step.threshold) + 1):
        noise = noisy - counts[key]
        chance = step.noise.tail(noise) - step.noise.tail(noise + 1)
        for other, count in counts.items():
            if other != key and chance > 0:
                # Of equal counts the key that comes last wins.
                beaten = noisy if other < key else noisy - 1
                chance *= 1 - step.noise.tail(beaten - count + 1)
        whole += chance
    return whole
