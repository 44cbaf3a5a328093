"""What is audited: the private path itself, with the auditor in the place of its draw."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from dpicl_rag import decoding, experts, labelling
from dpicl_rag.answers import PrivateAnswer, PrivateLabel
from dpicl_rag.documents import Document
from dpicl_rag.gathering import Documents
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.mechanisms import exponential
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.prompts import PromptTemplate

Pipeline = Callable[[Sequence[Document]], Documents]
"""From the corpus to what is handed to the private path: the documents, or a retriever."""

Choose = Callable[[torch.Tensor], int]
"""Picks the next token from the log-probabilities, float64 [candidates]."""

# The auditor stands in for the draw by replacing a function of the package, so one at a time.
_observing = threading.Lock()


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
        make: Builds the private path.
    """

    model: LanguageModel
    question: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    template: PromptTemplate = field(default_factory=PromptTemplate)
    pipeline: Pipeline = list
    labels: tuple[str, ...] = ()
    make: Callable[..., PrivateContextLLM] = PrivateContextLLM

    def with_settings(self, **settings: Any) -> Subject:
        """The same with some settings replaced."""
        return replace(self, settings={**self.settings, **settings})

    def build(self) -> PrivateContextLLM:
        """A fresh private path."""
        return self.make(self.model, template=self.template, **self.settings)

    def sample(self, corpus: Sequence[Document]) -> PrivateAnswer | PrivateLabel:
        """Run with its own draws; nothing is observed."""
        return self._run(self.build(), corpus)

    def follow(self, corpus: Sequence[Document], path: Sequence[int], coins: int = 0) -> Trace:
        """Run along a given path; after its last token the answer is cut off.

        Args:
            corpus: Units of the corpus.
            path: Tokens to release (or the index of a label).
            coins: Seed of the random groups. Two neighbours share it, and the unit in which they
                differ stands last, so that every other unit keeps its group.
        """
        given = iter(path)
        return self.observe(corpus, lambda _: next(given), tokens=len(path), coins=coins)

    def observe(
        self,
        corpus: Sequence[Document],
        choose: Choose | None = None,
        *,
        tokens: int | None = None,
        coins: int = 0,
    ) -> Trace:
        """Run and look at every draw.

        Args:
            corpus: Units of the corpus.
            choose: Picks each token; None leaves it to the path's own randomness.
            tokens: Most draws, in place of the setting ``max_tokens``'s end.
            coins: See ``follow``.
        """
        log_probs: list[torch.Tensor] = []
        released: list[int] = []
        own_draw = exponential.draw

        def draw(scores: torch.Tensor, randomness: Randomness) -> int:
            log_probs.append(torch.log_softmax(scores.double(), dim=-1))
            token = own_draw(scores, randomness) if choose is None else choose(log_probs[-1])
            released.append(token)
            if not self.labels and len(released) == tokens:
                raise _EnoughError
            return token

        llm = self.build()
        with _observing, _drawing(draw), _coins(coins):
            result = self._run(llm, corpus)
        return Trace(tuple(log_probs), tuple(released), result)

    def _run(
        self, llm: PrivateContextLLM, corpus: Sequence[Document]
    ) -> PrivateAnswer | PrivateLabel:
        documents = self.pipeline(corpus)
        if self.labels:
            return llm.classify(self.question, documents, self.labels)
        with (
            llm.stream(self.question, documents) as stream,
            contextlib.suppress(_EnoughError),
        ):
            for _ in stream:
                pass
        return stream.answer


class _EnoughError(Exception):
    """Leaves a run from within its draw: what was drawn is paid for."""


@contextlib.contextmanager
def _drawing(draw: Callable[[torch.Tensor, Randomness], int]) -> Iterator[None]:
    with (
        mock.patch.object(decoding, "draw", draw),
        mock.patch.object(labelling, "draw", draw),
    ):
        yield


@contextlib.contextmanager
def _coins(seed: int) -> Iterator[None]:
    """Give the random groups coins that two neighbours share; the draws keep their own."""
    coins = random.Random(seed)  # noqa: S311
    with mock.patch.object(experts, "secrets", SimpleNamespace(randbelow=coins.randrange)):
        yield
