"""Canaries, and an empirical lower bound on epsilon from answers with and without one of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter, itemgetter

import torch

from dpicl_rag.auditing.neighbours import ADVERSARIAL, enumerate_outputs, follow_both
from dpicl_rag.auditing.remembering import RememberingModel
from dpicl_rag.auditing.subject import Subject, Trace, reporting
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.results import PrivateAnswer, PrivateLabel

_CUTS = 200  # most thresholds that are tried on one statistic
_EXPANSIONS = 16  # prefixes that are followed to choose a canary

Statistic = Callable[[str], float]
"""A statistic that an attacker computes from an answer's text."""


@dataclass(frozen=True, slots=True, repr=False)
class Released:
    """One answer, as an attacker has it.

    Attributes:
        text: What was released.
        ratio: Its log-probability with the canary less that without it, in nats. An attacker who
            knows all but whether the canary is there can compute this; no statistic tells better
            (Neyman, Pearson 1933).
    """

    text: str
    ratio: float


CanaryEvent = Callable[[Released], bool]


@dataclass(frozen=True, slots=True, repr=False)
class CanaryAudit:
    """Findings of an attacker who distinguishes two neighbours by their answers.

    Attributes:
        lower_bound: Epsilon is at least this, at the stated confidence.
        confidence: Probability, over the runs, that the bound is right.
        claimed_epsilon: What the private path promises.
        delta: The promise's delta.
        runs: Answers drawn with the canary; as many were drawn without it.
        others: Documents around the canary. Private.
        hit_rate: Share of the answers with the canary in which the attacker's event held.
        false_rate: The same without the canary.
    """

    lower_bound: float
    confidence: float
    claimed_epsilon: float
    delta: float
    runs: int
    others: int
    hit_rate: float
    false_rate: float

    @property
    def holds(self) -> bool:
        """Verdict: the bound stays under the claim."""
        return self.lower_bound <= self.claimed_epsilon

    def text(self) -> str:
        """The findings in words."""
        return (
            f"Canary, with {self.others} other documents: the attacker's event held in "
            f"{self.hit_rate:.1%}\nof the answers with it and in {self.false_rate:.1%} of "
            "those without."
        )


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
    if not (runs > 0 and 0 <= hits <= runs and 0 <= false_hits <= runs):
        raise ConfigurationError("hits must be between 0 and the number of runs, which is above 0")
    if not 0 < confidence < 1:
        raise ConfigurationError("confidence must be strictly between 0 and 1")
    error = (1 - confidence) / 2
    at_least = clopper_pearson(hits, runs, error)
    at_most = 1 - clopper_pearson(runs - false_hits, runs, error)
    return max(0.0, math.log((at_least - delta) / at_most)) if at_least > delta else 0.0


@lru_cache(maxsize=1 << 16)
def clopper_pearson(hits: int, runs: int, error: float) -> float:
    """One-sided lower limit on a probability, wrong with probability ``error`` at most.

    Clopper, Pearson 1934.
    """
    from scipy.stats import beta

    return float(beta.ppf(error, hits, runs - hits + 1)) if hits else 0.0


def audit_canary(
    subject: Subject,
    documents: Sequence[Document],
    canary: Document,
    *,
    runs: int = 200,
    confidence: float = 0.95,
    tokens: int | None = None,
    statistics: Sequence[Statistic] = (),
    on_progress: Progress | None = None,
) -> CanaryAudit:
    """Draw answers with and without a canary and try to distinguish them.

    The attacker knows everything save whether the canary is there. A quarter of the runs chooses
    the event that tells best: a threshold on the likelihood ratio or on another statistic, a whole
    answer or its first word, in favour of the canary or against it. The others test it, so the
    bound holds whatever the event was chosen by.

    Args:
        subject: The private path; its model should be a ``RememberingModel``.
        documents: Units around the canary. The fewer there are, the more one unit shows.
        canary: The unit that is put in; ``worst_canary`` finds one.
        runs: Answers of either kind, four or more.
        confidence: Of the lower bound.
        tokens: How much of an answer the attacker looks at; fewer tokens are cheaper to draw.
        statistics: What else an attacker computes from an answer.
        on_progress: Called with the part that is done.

    Raises:
        ConfigurationError: Too few runs, or as the private path raises.
    """
    if runs < 4:
        raise ConfigurationError("a canary needs 4 runs or more of either kind")
    if isinstance(subject.model, RememberingModel):
        # The first run reads all documents in one batch, which then moves as one.
        subject = replace(subject, model=subject.model.anew())
    attacker = _Attacker(subject, [*documents, canary], documents)
    with_canary: list[Released] = []
    without: list[Released] = []
    for _ in reporting(range(runs), on_progress):
        last = subject.observe([*documents, canary], tokens=tokens)
        with_canary.append(attacker.sees(last))
        without.append(attacker.sees(subject.observe(documents, tokens=tokens)))
    seen = runs // 4
    event, arrives = _best_event(
        with_canary[:seen],
        without[:seen],
        [_mentions(canary), *statistics],
        tests=runs - seen,
        confidence=confidence,
    )
    hits = sum(map(event, with_canary[seen:]))
    false_hits = sum(map(event, without[seen:]))
    more, fewer = (hits, false_hits) if arrives else (false_hits, hits)
    tested = runs - seen
    result = last.result
    return CanaryAudit(
        epsilon_lower_bound(more, fewer, tested, delta=result.delta, confidence=confidence),
        confidence,
        result.epsilon,
        result.delta,
        runs,
        len(documents),
        hits / tested,
        false_hits / tested,
    )


class _Attacker:
    """Knows both corpora, the mechanism and the coins of groups, and so how likely an answer is."""

    def __init__(
        self, subject: Subject, one: Sequence[Document], other: Sequence[Document]
    ) -> None:
        self._subject = subject
        self._corpora = (one, other)
        self._ratios: dict[tuple[int, ...], float] = {}

    def sees(self, trace: Trace) -> Released:
        tokens = trace.tokens
        if tokens not in self._ratios:
            with_canary, without = (
                self._log_likelihood(documents, tokens) for documents in self._corpora
            )
            # Impossible from both happens where the draw does not follow the scores.
            equal = with_canary == without
            self._ratios[tokens] = 0.0 if equal else with_canary - without
        return Released(_text(trace.result), self._ratios[tokens])

    def _log_likelihood(self, documents: Sequence[Document], tokens: tuple[int, ...]) -> float:
        steps = self._subject.follow(documents, tokens).log_probs
        chosen = [log_probs[token] for log_probs, token in zip(steps, tokens, strict=True)]
        return float(torch.stack(chosen).sum())


def _best_event(
    with_canary: Sequence[Released],
    without: Sequence[Released],
    statistics: Sequence[Statistic],
    *,
    tests: int,
    confidence: float,
) -> tuple[CanaryEvent, bool]:
    """The event that promises the best bound from ``tests`` runs; whether the canary favours it.

    An event of the ratio is judged by how often it should hold in a test: the runs of either kind
    tell of the other one as well, weighed by the ratio. Other events have only their counts, and
    there are many, so they must stand out from all of them.
    """
    seen = [*with_canary, *without]

    def promise(event: CanaryEvent, arrives: bool) -> float:
        rates = _rates(event, with_canary, without)
        hits, false_hits = (round(tests * rate) for rate in rates)
        return bound(hits, false_hits, tests, confidence, arrives)

    def bound(hits: int, false_hits: int, runs: int, level: float, arrives: bool) -> float:
        more, fewer = (hits, false_hits) if arrives else (false_hits, hits)
        return epsilon_lower_bound(more, fewer, runs, delta=0.0, confidence=level)

    best = max(
        (
            (promise(event, arrives), event, arrives)
            for event in (
                _reaches(attrgetter("ratio"), cut) for cut in _cuts([r.ratio for r in seen])
            )
            for arrives in (True, False)
        ),
        key=itemgetter(0),
    )
    events: list[CanaryEvent] = []
    for view in (attrgetter("text"), _first_word):
        events += [_is(view, said) for said, _ in Counter(map(view, seen)).most_common(50)]
    for statistic in statistics:
        of_text = _of_text(statistic)
        events += [_reaches(of_text, cut) for cut in _cuts(list(map(of_text, seen)))]
    level = 1 - 0.1 / len(events)
    for event in events:
        hits, false_hits = sum(map(event, with_canary)), sum(map(event, without))
        for arrives in (True, False):
            found = bound(hits, false_hits, len(without), level, arrives)
            best = max(best, (found, event, arrives), key=itemgetter(0))
    return best[1:]


def _rates(
    event: CanaryEvent, with_canary: Sequence[Released], without: Sequence[Released]
) -> tuple[float, float]:
    """Expected rates of an event with the canary and without it, from runs of either kind.

    ``P(A | with) = E[e^ratio 1_A | without]``, and the other way round.
    """
    held, held_without = (list(filter(event, runs)) for runs in (with_canary, without))
    rate = (len(held) + sum(_exp(r.ratio) for r in held_without)) / (2 * len(without))
    false_rate = (len(held_without) + sum(_exp(-r.ratio) for r in held)) / (2 * len(without))
    return min(rate, 1.0), min(false_rate, 1.0)


def _exp(value: float) -> float:
    return math.exp(min(value, 50.0))


def _cuts(values: Sequence[float]) -> list[float]:
    """Values between which a threshold may lie, evenly spread where there are many."""
    distinct = sorted(set(values))
    return distinct[:: -(-len(distinct) // _CUTS)]


def _is(view: Callable[[Released], str], said: str) -> CanaryEvent:
    return lambda released: view(released) == said


def _reaches(statistic: Callable[[Released], float], cut: float) -> CanaryEvent:
    return lambda released: statistic(released) >= cut


def _first_word(released: Released) -> str:
    return released.text.split(maxsplit=1)[0] if released.text.strip() else ""


def _of_text(statistic: Statistic) -> Callable[[Released], float]:
    return lambda released: statistic(released.text)


def _mentions(canary: Document) -> Statistic:
    """Number of an answer's words that stand in the canary."""
    words = frozenset(canary.text.lower().split())
    return lambda text: float(sum(word in words for word in text.lower().split()))


def _text(result: PrivateAnswer | PrivateLabel) -> str:
    return result.label if isinstance(result, PrivateLabel) else result.text


_REPEATS = 3
_RIVALS = 3


def loud_canary(question: str) -> Document:
    """A unit that answers a question its own way, again and again."""
    return _canary(question, "The answer is quokka.")


def rival_canaries(subject: Subject) -> Iterator[Document]:
    """Units that insist on an answer the public model finds likely, though not the likeliest.

    One unit's pull on a token is bounded. It shows the most on a token that is drawn about as
    often as not, so a canary does better with a likely rival than with something unheard of.
    """
    if subject.labels:
        yield from (_canary(subject.question, label) for label in subject.labels)
        return

    def rival(first: int, later: int) -> Document:
        drawn = 0

        def choose(log_probs: torch.Tensor) -> int:
            nonlocal drawn
            drawn += 1
            rank = first if drawn == 1 else later
            return int(log_probs.topk(min(rank + 1, len(log_probs))).indices[-1])

        answer = subject.observe([], choose)
        tokenizer = subject.model.tokenizer
        text = tokenizer.decode([t for t in answer.tokens if t not in tokenizer.stop_tokens])
        return _canary(subject.question, text)

    for rank in range(_RIVALS):
        yield rival(rank, 0)
    yield rival(1, 1)


def worst_canary(
    subject: Subject,
    documents: Sequence[Document],
    *,
    tokens: int = 4,
    on_progress: Progress | None = None,
) -> Document:
    """The canary, of a few kinds, whose answers stand the furthest from those without it.

    Chosen by the exact total variation distance of enumerated outputs, without drawing an answer,
    so that a bound from answers drawn later holds.

    Args:
        subject: The private path; its model should be a ``RememberingModel``.
        documents: Units around the canary.
        tokens: Length of the outputs.
        on_progress: Called with the part that is done.

    Raises:
        ConfigurationError: As the private path raises.
    """
    if subject.labels:
        tokens = 1
    kinds = {canary.text: canary for canary in rival_canaries(subject)}
    kinds.update({text: Document(text, "canary") for text in ADVERSARIAL})
    loud = loud_canary(subject.question)
    kinds[loud.text] = loud
    distances: list[float] = []
    for canary in reporting(list(kinds.values()), on_progress):
        log_p, log_q = enumerate_outputs(
            follow_both(subject, ([*documents, canary], list(documents))),
            subject.model.tokenizer.stop_tokens,
            depth=tokens,
            expansions=_EXPANSIONS,
        )
        distances.append(total_variation(log_p, log_q))
    return max(zip(distances, kinds.values(), strict=True), key=itemgetter(0))[1]


def total_variation(log_p: torch.Tensor, log_q: torch.Tensor) -> float:
    """Total variation distance of two distributions, float64 [outcomes] each, as logarithms."""
    return float((log_p.exp() - log_q.exp()).clamp(min=0).sum())


def _canary(question: str, answer: str) -> Document:
    return Document(f"{question} {answer.strip()} " * _REPEATS, "canary")
