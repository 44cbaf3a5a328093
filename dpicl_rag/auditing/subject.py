"""The subject of an audit: the private path, with the auditor's coins in the place of its own."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from dpicl_rag.documents import Document
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.results import PrivateAnswer, PrivateLabel
from dpicl_rag.retrieval import Documents

T = TypeVar("T")

Pipeline = Callable[[Sequence[Document]], Documents]
"""From the corpus to what is handed to the private path: the documents, or a retriever."""

Choose = Callable[[torch.Tensor], int]
"""Picks the next token from the log-probabilities, float64 [candidates]."""


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """One run of the private path, seen from inside. Private.

    Attributes:
        log_probs: At every draw, the log-probabilities that it samples from, float64 [candidates].
        tokens: What was released.
        result: What the caller got.
    """

    log_probs: tuple[torch.Tensor, ...]
    tokens: tuple[int, ...]
    result: PrivateAnswer | PrivateLabel


@dataclass(frozen=True, slots=True, repr=False)
class Subject:
    """The private path with a question and settings; a fresh one is made for every run.

    Attributes:
        model: A language model. ``RememberingModel`` makes repeated runs cheap.
        question: Public.
        settings: Fields of ``PrivacyConfig``.
        template: How documents and the question become prompts.
        pipeline: From the corpus to the documents or retriever of one run.
        labels: Classify among these in place of answering.
        method: A published method for labels, see ``PrivateContextLLM.classify``.
        make: Builds the private path.
        on_progress: Called with the part of the documents that is read.
    """

    model: LanguageModel
    question: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    template: PromptTemplate = field(default_factory=PromptTemplate)
    pipeline: Pipeline = list
    labels: tuple[str, ...] = ()
    method: str | None = None
    make: Callable[..., PrivateContextLLM] = PrivateContextLLM
    on_progress: Progress | None = None

    def sample(self, documents: Sequence[Document]) -> PrivateAnswer | PrivateLabel:
        """Run with its own coins; nothing is observed."""
        return self._run(documents, None)

    def follow(self, documents: Sequence[Document], path: Sequence[int], coins: int = 0) -> Trace:
        """Run along a given path; after its last token the answer is cut off.

        Args:
            documents: Units of the corpus.
            path: Tokens to release (or the index of a label).
            coins: Seed of the random groups. Two neighbours share it, and the unit in which they
                differ stands last, so that every other unit keeps its group.
        """
        given = iter(path)
        return self.observe(documents, lambda _: next(given), tokens=len(path), coins=coins)

    def observe(
        self,
        documents: Sequence[Document],
        choose: Choose | None = None,
        *,
        tokens: int | None = None,
        coins: int = 0,
    ) -> Trace:
        """Run and look at every draw.

        Args:
            documents: Units of the corpus.
            choose: Picks each token; None leaves it to the path's own randomness.
            tokens: Most draws, in place of the setting ``max_tokens``'s end.
            coins: See ``follow``.
        """
        own = Randomness.of(self.settings.get("seed"))
        observer = _Observer(own, choose, None if self.labels else tokens, coins)
        result = self._run(documents, observer)
        return Trace(tuple(observer.log_probs), tuple(observer.released), result)

    def _run(
        self, documents: Sequence[Document], randomness: Randomness | None
    ) -> PrivateAnswer | PrivateLabel:
        settings = {**self.settings, **({} if randomness is None else {"seed": None})}
        llm = self.make(self.model, template=self.template, randomness=randomness, **settings)
        given = self.pipeline(documents)
        if self.labels:
            return llm.classify(
                self.question,
                given,
                self.labels,
                method=self.method,
                on_progress=self.on_progress,
            )
        with (
            llm.stream(self.question, given, on_progress=self.on_progress) as stream,
            contextlib.suppress(_EnoughError),
        ):
            for _ in stream:
                pass
        return stream.answer


def reporting(items: Sequence[T], on_progress: Progress | None) -> Iterator[T]:
    """Items one by one; those that are done are reported."""
    for done, item in enumerate(items, 1):
        yield item
        if on_progress is not None:
            on_progress(done, len(items))


class _EnoughError(Exception):
    """Leaves a run from within its draw: what was drawn is paid for."""


class _Observer(Randomness):
    """Coins that see what is drawn from, and may choose what is drawn.

    Args:
        own: Where draws come from that are not chosen.
        choose: Picks each token.
        tokens: Draws after which the run is left; None lets it end by itself.
        coins: Seed of all other coins, which two neighbours share.
    """

    def __init__(
        self, own: Randomness, choose: Choose | None, tokens: int | None, coins: int
    ) -> None:
        self._own = own
        self._choose = choose
        self._tokens = tokens
        self._coins = random.Random(coins)  # noqa: S311
        self.log_probs: list[torch.Tensor] = []
        self.released: list[int] = []

    def uniform(self) -> float:
        return self._coins.random()

    def below(self, bound: int) -> int:
        return self._coins.randrange(bound)

    def draw(self, scores: torch.Tensor) -> int:
        self.log_probs.append(torch.log_softmax(scores.double(), dim=-1))
        choose = self._choose
        token = self._own.draw(scores) if choose is None else choose(self.log_probs[-1])
        self.released.append(token)
        if len(self.released) == self._tokens:
            raise _EnoughError
        return token
