"""Planted near-ties: many copies of one text, and a unit whose arrival might tip all of them.

Charges cover the unit that arrives and nothing else, so the rows of the others must not move. Where
they do, by rounding alone, a vote between two labels of nearly the same probability tips, and all
copies tip together: with 100 of them, a log ratio of 100 at a claimed epsilon of 1. The attacker
here knows the model, and picks the text and the labels that tip.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import torch

from dpicl_rag.auditing.company import OneReading
from dpicl_rag.auditing.enumeration import exact_epsilon
from dpicl_rag.auditing.neighbours import TOLERANCE
from dpicl_rag.auditing.subject import Subject
from dpicl_rag.configuration import MethodName, PrivacyConfig, UtilityName
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress, Rows
from dpicl_rag.mechanisms.step import DenseStep, Step
from dpicl_rag.prompts import Prompt, label_tokens
from dpicl_rag.reading import read

_TEXTS = ("The depot opens at seven.", "Ana prefers tea, and Ben prefers coffee or water.")
_NEWCOMERS = ("It rains. " * 40, "No.")
_PAIRS = 12
"""Pairs of labels that are looked at for one text and newcomer."""

_SETTINGS = ("epsilon", "delta", "unit_tokens")
"""Settings that the attack keeps; it brings its own utilities and methods."""

_ORDERS = (1.001, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 64.0, 256.0, 1024.0)


@dataclass(frozen=True, slots=True, repr=False)
class NearTie:
    """What one utility or method showed. Private.

    Attributes:
        name: Of the utility or method, and what was drawn.
        claimed_epsilon: What the private path promises, at its delta.
        worst_epsilon: Exact epsilon of the two distributions, at that delta.
        charged_rho: zCDP rho that the draw was charged.
        worst_rho: Exact rho of the two distributions: the largest ratio of a Renyi divergence and
            its order.
    """

    name: str
    claimed_epsilon: float
    worst_epsilon: float
    charged_rho: float
    worst_rho: float

    @property
    def usage(self) -> float:
        """Largest share of a claim that was used; above 1 it does not hold."""
        pairs = (
            (self.worst_epsilon, self.claimed_epsilon),
            (self.worst_rho, self.charged_rho),
        )
        return max(worst / claimed if worst else 0.0 for worst, claimed in pairs)


@dataclass(frozen=True, slots=True, repr=False)
class NearTieAudit:
    """What planted near-ties showed. Private.

    Attributes:
        findings: One for each utility and method.
        copies: How many copies of a text were planted.
    """

    findings: tuple[NearTie, ...]
    copies: int

    @property
    def worst(self) -> NearTie:
        """The one that used most of its claim."""
        return max(self.findings, key=lambda found: found.usage)

    @property
    def holds(self) -> bool:
        """Whether no arrival moved anything that it was not charged for."""
        return self.worst.usage <= 1 + TOLERANCE


def audit_near_ties(
    subject: Subject, *, copies: int = 32, on_progress: Progress | None = None
) -> NearTieAudit:
    """Plant copies of a text near a tie, add a unit of another length, and compare exactly.

    Under add-or-remove adjacency, with every utility (an answer's first token, and a label) and
    every published method.

    Args:
        subject: Its model, question, template, epsilon and delta are used. The model must read
            anew: one that remembers rows hides what is looked for.
        copies: How many units hold the text.
        on_progress: Told which part is done.

    Raises:
        ConfigurationError: As the private path raises.
    """
    model = OneReading(subject.model)
    kept = {name: subject.settings[name] for name in _SETTINGS if name in subject.settings}
    subject = replace(subject, model=model, settings=kept, pipeline=list, labels=(), method=None)
    one, other, labels = _worst_tie(subject, copies)
    subjects = list(_every_way(subject, labels))
    findings = []
    for done, (name, audited) in enumerate(subjects):
        p, q = (audited.follow(corpus, [0]) for corpus in (one, other))
        drawn_from, claim = (p.log_probs[0], q.log_probs[0]), p.result
        worst = exact_epsilon(*drawn_from, claim.delta)
        findings.append(NearTie(name, claim.epsilon, worst, claim.rho, exact_rho(*drawn_from)))
        if on_progress is not None:
            on_progress((done + 1) / len(subjects))
    return NearTieAudit(tuple(findings), copies)


def exact_rho(log_p: torch.Tensor, log_q: torch.Tensor) -> float:
    """Smallest rho for which both Renyi divergences are at most rho times their order.

    Args:
        log_p: Log-probabilities, float64 [outcomes].
        log_q: The same outcomes in the neighbour's distribution.

    Returns:
        The largest ratio over a grid of orders, so never above the exact one; infinity where an
        outcome is possible in one of them only.
    """
    possible = torch.isfinite(log_p) | torch.isfinite(log_q)
    log_p, log_q = log_p[possible], log_q[possible]
    if not bool((torch.isfinite(log_p) & torch.isfinite(log_q)).all()):
        return math.inf
    found = (
        float(torch.logsumexp(order * a + (1 - order) * b, dim=0)) / (order - 1) / order
        for order in _ORDERS
        for a, b in ((log_p, log_q), (log_q, log_p))
    )
    return max(0.0, *found)


def _every_way(subject: Subject, labels: tuple[str, ...]) -> Iterator[tuple[str, Subject]]:
    for utility in get_args(UtilityName):
        settings = {**subject.settings, "utility": utility}
        yield f"answer by {utility}", replace(subject, settings=settings)
        yield f"label by {utility}", replace(subject, settings=settings, labels=labels)
    for method in get_args(MethodName):
        yield f"label by method {method}", replace(subject, labels=labels, method=method)


def _worst_tie(
    subject: Subject, copies: int
) -> tuple[list[Document], list[Document], tuple[str, ...]]:
    """Neighbours and two labels: those with the most tipped copies, or else the nearest tie."""
    found = []
    for text in _TEXTS:
        without = [Document(text, f"copy-{at}") for at in range(copies)]
        for newcomer in _NEWCOMERS:
            with_it = [*without, Document(newcomer, "newcomer")]
            for rank, labels in _labels(subject, with_it, without):
                found.append((rank, with_it, without, labels))
            if found and max(found, key=lambda item: item[0])[0][0] > 0:
                break
    if not found:
        raise ConfigurationError("the model has no two tokens that can stand for labels")
    _, with_it, without, labels = max(found, key=lambda item: item[0])
    return with_it, without, labels


def _labels(
    subject: Subject, with_it: Sequence[Document], without: Sequence[Document]
) -> Iterator[tuple[tuple[int, float], tuple[str, ...]]]:
    """Pairs of labels with how many copies tip between two companies, and how near the tie is."""
    prompt = subject.template.cut(subject.model.tokenizer, subject.question)
    rows = [_read(subject, prompt, corpus) for corpus in (with_it, without)]
    a, b = (_experts(one.extend(prompt.suffix))[: len(without)] for one in rows)
    order = a[0].argsort(descending=True)
    tips, gaps = _tips(a[:, order], b[:, order])
    ranks = tips - gaps.clamp(max=1.0)  # a tip comes before any gap
    for at in ranks.topk(min(_PAIRS, len(ranks))).indices.tolist():
        labels = tuple(
            subject.model.tokenizer.decode([int(order[place])]).strip() for place in (at, at + 1)
        )
        try:
            tokens = label_tokens(subject.model.tokenizer, labels, prompt.lead)
        except ConfigurationError:
            continue
        if max(map(len, tokens)) > 2:
            continue
        tips_here, gap = _tips(*(_experts(one.score(tokens))[: len(without)] for one in rows))
        yield (int(tips_here), -float(gap)), labels


def _tips(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How many rows order a column and the next differently, and the first row's difference.

    Args:
        a: Log-probabilities of the rows in one company [rows, columns].
        b: The same rows in another.

    Returns:
        Two of [columns - 1].
    """
    ahead, later = ((rows[:, 1:] > rows[:, :-1]) for rows in (a, b))
    gaps = (a[0, 1:].double() - a[0, :-1].double()).abs().nan_to_num(nan=torch.inf)
    return (ahead != later).sum(dim=0), gaps


def _read(subject: Subject, prompt: Prompt, corpus: Sequence[Document]) -> Rows:
    most = prompt.allowance(subject.model, PrivacyConfig.create(**subject.settings).unit_tokens, 2)
    inputs = [subject.model.digest((document.text,), most) for document in corpus]
    return read(subject.model, prompt, inputs, room=2)


def _experts(step: Step) -> torch.Tensor:
    assert isinstance(step, DenseStep)
    return step.experts
