"""Choice of a canary: the unit whose answers are the easiest to distinguish from the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from dpicl_rag.auditing.enumeration import enumerate_outputs
from dpicl_rag.auditing.neighbours import ADVERSARIAL, follow_both
from dpicl_rag.auditing.subject import Subject
from dpicl_rag.documents import Document
from dpicl_rag.language_models.base import Progress

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
    expansions: int = 16,
    on_progress: Progress | None = None,
) -> Document:
    """The canary, of a few kinds, whose answers stand the furthest from those without it.

    Chosen by the exact total variation distance of enumerated outputs, without drawing an answer,
    so that a bound from answers drawn later holds.

    Args:
        subject: The private path; its model should be a ``RememberingModel``.
        documents: Units around the canary.
        tokens: Length of the outputs.
        expansions: How many prefixes are followed.
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
    for done, canary in enumerate(kinds.values()):
        log_p, log_q = enumerate_outputs(
            follow_both(subject, ([*documents, canary], list(documents)), coins=0),
            subject.model.tokenizer.stop_tokens,
            depth=tokens,
            expansions=expansions,
        )
        distances.append(total_variation(log_p, log_q))
        if on_progress is not None:
            on_progress(done + 1, len(kinds))
    best = max(range(len(distances)), key=distances.__getitem__)
    return list(kinds.values())[best]


def total_variation(log_p: torch.Tensor, log_q: torch.Tensor) -> float:
    """Total variation distance of two distributions, float64 [outcomes] each, as logarithms."""
    return float((log_p.exp() - log_q.exp()).clamp(min=0).sum())


def _canary(question: str, answer: str) -> Document:
    return Document(f"{question} {answer.strip()} " * _REPEATS, "canary")
