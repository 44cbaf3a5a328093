"""Planted near-ties: many copies of one text, and a unit whose arrival might tip all of them.

Charges cover the unit that arrives and nothing else, so the rows of the others must not move. Where
they do, by rounding alone, a vote between two labels of nearly the same probability tips, and all
copies tip together: with 100 of them, a log ratio of 100 at a claimed epsilon of 1. The attacker
here knows the model, and picks the text and the labels that tip. Neighbours in which a unit might
move rows that it is not charged for are made by `every_attack`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

import torch

from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.auditing.neighbours import TOLERANCE, exact_epsilon
from dpicl_rag.auditing.remembering import OneReading
from dpicl_rag.auditing.subject import Subject
from dpicl_rag.configuration import MethodName, PrivacyConfig, UtilityName
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, Progress, Rows
from dpicl_rag.mechanisms.step import DenseStep, Step
from dpicl_rag.prompts import Prompt, label_tokens

if TYPE_CHECKING:
    from dpicl_rag.language_models.transformers import TransformersModel


_PAIRS = 12
"""Pairs of labels that are looked at for one text and newcomer."""

_LONGEST_LABEL = 2  # tokens

_SETTINGS = ("epsilon", "delta", "unit_tokens")
"""Settings that the attack keeps; it brings its own utilities and methods."""

_ORDERS = (1.001, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 64.0, 256.0, 1024.0)


@dataclass(frozen=True, slots=True, repr=False)
class NearTie:
    """Findings on one utility or method. Private.

    Attributes:
        attack: What might have moved rows.
        name: Of the utility or method, and what was drawn.
        claimed_epsilon: What the private path promises, at its delta.
        worst_epsilon: Exact epsilon of the two distributions, at that delta.
        charged_rho: zCDP rho that the draw was charged.
        worst_rho: Exact rho of the two distributions: the largest ratio of a Renyi divergence and
            its order.
    """

    attack: AttackName
    name: str
    claimed_epsilon: float
    worst_epsilon: float
    charged_rho: float
    worst_rho: float

    def __str__(self) -> str:
        return f"{self.attack}, {self.name}"

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
    """Findings on planted near-ties. Private.

    Attributes:
        findings: One for each attack, utility and method.
        copies: How many copies of a text were planted.
    """

    findings: tuple[NearTie, ...]
    copies: int

    @property
    def worst(self) -> NearTie:
        """The one that used most of its claim."""
        return max(self.findings, key=lambda found: found.usage)

    def used(self, attack: AttackName) -> float | None:
        """Largest share of a claim that an attack used; None where the model cannot suffer it."""
        return max((one.usage for one in self.findings if one.attack == attack), default=None)

    @property
    def holds(self) -> bool:
        """Verdict: no arrival moved anything that it was not charged for."""
        return self.worst.usage <= 1 + TOLERANCE

    def text(self) -> str:
        """The findings in words."""
        shares = (self.used(attack) for attack in get_args(AttackName))
        newcomer, joined, kept = (
            "(not tried)" if share is None else f"{share:.1%}" for share in shares
        )
        return (
            f"Near ties, with {self.copies} copies of a text and two nearly equal labels, by the "
            "worst of all\nutilities and methods. Share of the claim that one unit more used: "
            f"{newcomer};\nwhere it joins a row that was alone: {joined};\n"
            f"where it has rows read anew that were read elsewhere: {kept}."
        )


def audit_near_ties(
    subject: Subject, *, copies: int = 32, on_progress: Progress | None = None
) -> NearTieAudit:
    """Attack with planted texts and labels near a tie, and compare exactly.

    Under add-or-remove adjacency, with every utility (an answer's first token, and a label) and
    every published method. Attacked is by a unit of another length that arrives beside copies of a
    text; by one that joins a row which is alone in its width; and by one that has rows read anew
    which a model of transformers kept from a reading with another number of threads.

    Args:
        subject: Its model, question, template, epsilon and delta are used. The model must read
            anew: one that remembers rows hides what is looked for.
        copies: How many units hold the text.
        on_progress: Called with the part that is done.

    Raises:
        ConfigurationError: As the private path raises.
    """
    kept = {name: subject.settings[name] for name in _SETTINGS if name in subject.settings}
    subject = replace(subject, settings=kept, pipeline=list, labels=(), method=None)
    attacks = list(every_attack(subject, copies))
    findings = []
    for done, (attack, choice) in enumerate(attacks):
        chosen, labels = _worst_tie(subject, choice)
        ways = list(_every_way(subject, labels))
        for at, (name, audited) in enumerate(ways):
            p, q = (
                replace(audited, model=side.model).follow(side.documents, [0])
                for side in (chosen.one, chosen.other)
            )
            drawn_from, claim = (p.log_probs[0], q.log_probs[0]), p.result
            worst, rho = exact_epsilon(*drawn_from, claim.delta), exact_rho(*drawn_from)
            findings.append(NearTie(attack, name, claim.epsilon, worst, claim.rho, rho))
            if on_progress is not None:
                on_progress(done + (at + 1) / len(ways), len(attacks))
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
    subject: Subject, choice: Sequence[Neighbours]
) -> tuple[Neighbours, tuple[str, ...]]:
    """Neighbours and two labels: those with the most moved votes, or else the nearest tie."""
    found = []
    for neighbours in choice:
        found += [(rank, neighbours, labels) for rank, labels in _labels(subject, neighbours)]
        if found and max(rank for rank, *_ in found)[0] > 0:
            break
    if not found:
        raise ConfigurationError("the model has no two tokens that can stand for labels")
    _, neighbours, labels = max(found, key=lambda item: item[0])
    return neighbours, labels


def _labels(
    subject: Subject, neighbours: Neighbours
) -> Iterator[tuple[tuple[int, float], tuple[str, ...]]]:
    """Pairs of labels with how many votes move uncharged, and how near the tie is."""
    prompt = subject.template.cut(subject.model.tokenizer, subject.question)

    @cache
    def asked(room: int) -> tuple[tuple[Rows, ...], tuple[torch.Tensor, ...]]:
        """Rows after the question, and what their experts say; bits may depend on the room."""
        rows = neighbours.rows(subject, prompt, room)
        return rows, tuple(_experts(one.extend(prompt.suffix)) for one in rows)

    _, (a, b) = asked(1)
    order = a[0].argsort(descending=True)
    moved, gaps = _moved_votes(a[:, order], b[:, order])
    ranks = moved - gaps.clamp(max=1.0)  # a vote comes before any gap
    for at in ranks.topk(min(_PAIRS, len(ranks))).indices.tolist():
        labels = tuple(
            subject.model.tokenizer.decode([int(order[place])]).strip() for place in (at, at + 1)
        )
        try:
            tokens = label_tokens(subject.model.tokenizer, labels, prompt.lead)
        except ConfigurationError:
            continue
        room = max(map(len, tokens))
        if room > _LONGEST_LABEL:
            continue
        rows, _ = asked(room)
        moved_here, gap = _moved_votes(*(_experts(one.score(tokens)) for one in rows))
        yield (int(moved_here), -float(gap)), labels


def _moved_votes(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Votes between a column and the next that move beside the newcomer's, and the first row's gap.

    Args:
        a: Log-probabilities of the rows with the newcomer [rows + 1, columns].
        b: Of those without it [rows, columns].

    Returns:
        Two of [columns - 1].
    """
    for_later, before = ((rows[:, 1:] > rows[:, :-1]).sum(dim=0) for rows in (a, b))
    gained = for_later - before
    gaps = (a[0, 1:].double() - a[0, :-1].double()).abs().nan_to_num(nan=torch.inf)
    return torch.maximum(gained - 1, -gained), gaps


def _experts(step: Step) -> torch.Tensor:
    assert isinstance(step, DenseStep)
    return step.experts


AttackName = Literal["a newcomer", "a joined row", "kept rows"]
"""A unit of another length arrives; it joins a row that was alone in its width; rows of the others
were read before, in other circumstances, and its arrival has them read anew."""

_TEXTS = ("The depot opens at seven.", "Ana prefers tea, and Ben prefers coffee or water.")
_NEWCOMERS = ("It rains. " * 40, "No.")
_LENGTHS = (70, 140, 280)  # tokens; of rows that take more room than most


@dataclass(frozen=True, slots=True, repr=False)
class Side:
    """One of two neighbours.

    Attributes:
        model: Reads each company of documents once.
        documents: The units that both have come first.
    """

    model: LanguageModel
    documents: Sequence[Document]


@dataclass(frozen=True, slots=True, repr=False)
class Neighbours:
    """Two corpora that differ in one unit."""

    one: Side
    other: Side

    def rows(self, subject: Subject, prompt: Prompt, room: int) -> tuple[Rows, Rows]:
        """Rows of both, for labels of so many tokens."""
        one, other = (
            rows_of(subject, side.model, prompt, side.documents, room)
            for side in (self.one, self.other)
        )
        return one, other


def every_attack(subject: Subject, copies: int) -> Iterator[tuple[AttackName, list[Neighbours]]]:
    """Each attack with the neighbours to choose from; those that the model can suffer."""
    from dpicl_rag.language_models.transformers import TransformersModel

    model = OneReading(subject.model)
    for name in get_args(AttackName):
        if name == "a newcomer":
            yield name, _newcomers(model, copies)
        elif name == "a joined row":
            yield name, _joined(model)
        elif isinstance(subject.model, TransformersModel):
            yield name, _kept(subject, subject.model, copies)


def rows_of(
    subject: Subject, model: LanguageModel, prompt: Prompt, documents: Sequence[Document], room: int
) -> Rows:
    """The rows of a corpus as the private path reads them."""
    most = prompt.allowance(model, PrivacyConfig.create(**subject.settings).unit_tokens, room)
    inputs = [model.digest((document.text,), most) for document in documents]
    return read(model, prompt, inputs, room=room)


def _newcomers(model: LanguageModel, copies: int) -> list[Neighbours]:
    return [
        _neighbours(model, _copies(text, copies), newcomer)
        for text in _TEXTS
        for newcomer in _NEWCOMERS
    ]


def _joined(model: LanguageModel) -> list[Neighbours]:
    """One row in a width of its own, and a second one of nearly its length."""
    texts = [_long(model, text, length) for length in _LENGTHS for text in _TEXTS]
    return [_neighbours(model, [Document(text, "alone")], f"{text} No.") for text in texts]


def _kept(subject: Subject, model: TransformersModel, copies: int) -> list[Neighbours]:
    """Copies that were read ahead with another number of threads, or else read now."""
    from dpicl_rag.language_models.prefix_cache import PrefixCache

    prompt = subject.template.cut(model.tokenizer, subject.question)
    found = []
    for text in _TEXTS:
        documents = _copies(text, copies)
        ahead = model.with_cache(PrefixCache())
        with _other_threads():
            rows_of(subject, ahead, prompt, documents, room=1)
        now = OneReading(model.with_cache(None))
        anew = _neighbours(now, documents, _NEWCOMERS[0])
        found.append(replace(anew, other=Side(OneReading(ahead), documents)))
    return found


def _copies(text: str, count: int) -> list[Document]:
    return [Document(text, f"copy-{at}") for at in range(count)]


def _neighbours(model: LanguageModel, others: list[Document], newcomer: str) -> Neighbours:
    with_it = [*others, Document(newcomer, "newcomer")]
    return Neighbours(Side(model, with_it), Side(model, others))


def _long(model: LanguageModel, text: str, tokens: int) -> str:
    """A text, again and again, of at least so many tokens."""
    once = max(1, len(model.tokenizer.encode(text)))
    return " ".join([text] * -(-tokens // once))


@contextmanager
def _other_threads() -> Iterator[None]:
    """Numbers are added up in another order here."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2 if before == 1 else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
