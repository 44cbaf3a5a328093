"""Canaries: an empirical lower bound on epsilon from answers with and without one unit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpicl_rag.answers import PrivateAnswer, PrivateLabel
from dpicl_rag.auditing.subject import Subject
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress

Statistic = Callable[[str], float]
"""What an attacker computes from an answer's text."""


def loud_canary(question: str) -> Document:
    """A unit that answers a question its own way, again and again."""
    return Document(f"{question} The answer is quokka. " * 6, "canary")


@dataclass(frozen=True, slots=True, repr=False)
class CanaryAudit:
    """What an attacker who tells two neighbours apart by their answers has shown.

    Attributes:
        lower_bound: Epsilon is at least this, at the stated confidence.
        confidence: Probability, over the runs, that the bound is right.
        claimed_epsilon: What the private path promises.
        delta: The promise's delta.
        runs: Answers drawn with the canary; as many were drawn without it.
        hit_rate: Share of the answers with the canary in which the attacker's event held.
        false_rate: The same without the canary.
    """

    lower_bound: float
    confidence: float
    claimed_epsilon: float
    delta: float
    runs: int
    hit_rate: float
    false_rate: float

    @property
    def holds(self) -> bool:
        """Whether the bound stays under the claim."""
        return self.lower_bound <= self.claimed_epsilon


def epsilon_lower_bound(
    hits: int, false_hits: int, runs: int, *, delta: float, confidence: float
) -> float:
    """Lower bound on epsilon from how often an event held, with and without one unit.

    Any (epsilon, delta)-DP mechanism has ``p <= e^epsilon q + delta`` for every event. Both
    probabilities are bounded by Clopper, Pearson 1934, each at half the error.

    Args:
        hits: Runs with the unit in which the event held.
        false_hits: Runs without it in which the event held.
        runs: Runs of either kind. The event must not have been chosen by looking at them.
        delta: The claim's delta.
        confidence: Strictly between 0 and 1.

    Returns:
        Epsilon, 0 or more.

    Raises:
        ConfigurationError: A count is outside 0 to ``runs``, or the confidence outside (0, 1).
    """
    from scipy.stats import beta

    if not (runs > 0 and 0 <= hits <= runs and 0 <= false_hits <= runs):
        raise ConfigurationError("hits must be between 0 and the number of runs, which is above 0")
    if not 0 < confidence < 1:
        raise ConfigurationError("confidence must be strictly between 0 and 1")
    error = (1 - confidence) / 2
    at_least = float(beta.ppf(error, hits, runs - hits + 1)) if hits else 0.0
    at_most = 1.0
    if false_hits < runs:
        at_most = float(beta.ppf(1 - error, false_hits + 1, runs - false_hits))
    return max(0.0, math.log((at_least - delta) / at_most)) if at_least > delta else 0.0


def audit_canary(
    subject: Subject,
    corpus: Sequence[Document],
    canary: Document,
    *,
    runs: int = 200,
    confidence: float = 0.95,
    statistics: Sequence[Statistic] = (),
    on_progress: Progress | None = None,
) -> CanaryAudit:
    """Draw answers with and without a canary and try to tell which is which.

    One half of the runs chooses the event that tells best: a whole answer, its first word, or a
    threshold on a statistic, in favour of the canary or against it. The other half tests it.

    Args:
        subject: The private path; its model should be a ``RememberingModel``.
        corpus: Units around the canary.
        canary: The unit that is put in; it should say what nothing else would.
        runs: Answers of either kind, four or more.
        confidence: Of the lower bound.
        statistics: What else an attacker computes from an answer.
        on_progress: Told which part is done.

    Raises:
        ConfigurationError: Too few runs, or as the private path raises.
    """
    if runs < 4:
        raise ConfigurationError("a canary needs 4 runs or more of either kind")
    with_canary: list[str] = []
    without: list[str] = []
    for done in range(runs):
        last = subject.sample([*corpus, canary])
        with_canary.append(_text(last))
        without.append(_text(subject.sample(corpus)))
        if on_progress is not None:
            on_progress((done + 1) / runs)
    half = runs // 2
    event, arrives = _best_event(
        with_canary[:half], without[:half], [_mentions(canary), *statistics]
    )
    hits = sum(map(event, with_canary[half:]))
    false_hits = sum(map(event, without[half:]))
    more, fewer = (hits, false_hits) if arrives else (false_hits, hits)
    tested = runs - half
    bound = epsilon_lower_bound(more, fewer, tested, delta=last.delta, confidence=confidence)
    return CanaryAudit(
        bound, confidence, last.epsilon, last.delta, runs, hits / tested, false_hits / tested
    )


def _best_event(
    with_canary: Sequence[str], without: Sequence[str], statistics: Sequence[Statistic]
) -> tuple[Callable[[str], bool], bool]:
    """The event that bounds epsilon best on these runs, and whether the canary favours it."""
    answers = Counter([*with_canary, *without])
    words = Counter(_first_word(text) for text in answers.elements())
    events = [_is(str, seen) for seen, _ in answers.most_common(50)]
    events += [_is(_first_word, seen) for seen, _ in words.most_common(50)]
    for statistic in statistics:
        events += [_reaches(statistic, cut) for cut in sorted({*map(statistic, answers)})]

    def bound(event: Callable[[str], bool], arrives: bool) -> float:
        hits, false_hits = sum(map(event, with_canary)), sum(map(event, without))
        more, fewer = (hits, false_hits) if arrives else (false_hits, hits)
        return epsilon_lower_bound(more, fewer, len(without), delta=0.0, confidence=0.9)

    return max(((e, a) for e in events for a in (True, False)), key=lambda choice: bound(*choice))


def _is(view: Callable[[str], str], seen: str) -> Callable[[str], bool]:
    return lambda text: view(text) == seen


def _reaches(statistic: Statistic, cut: float) -> Callable[[str], bool]:
    return lambda text: statistic(text) >= cut


def _mentions(canary: Document) -> Statistic:
    """How many of an answer's words stand in the canary."""
    words = frozenset(canary.text.lower().split())
    return lambda text: float(sum(word in words for word in text.lower().split()))


def _text(result: PrivateAnswer | PrivateLabel) -> str:
    return result.label if isinstance(result, PrivateLabel) else result.text


def _first_word(text: str) -> str:
    return text.split(maxsplit=1)[0] if text.strip() else ""
