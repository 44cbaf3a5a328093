"""Texts that are written token by token with any mechanism, and no charge.

For public benchmark data: rows to compare with, and what happens inside a private method. It is
not the private path, and the library has no way to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dpicl_rag.answering.decoding import decode
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.language_models.base import GrowingRows, Input, LanguageModel
from dpicl_rag.mechanisms.points import points, spread
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import ChargedAlike, Mechanism
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import likeliest
from dpicl_rag.synthesis.pools import (
    FreshSampleRows,
    LabelCharge,
    LabelledDocument,
    Sampler,
    TextFilter,
    pools,
)
from dpicl_rag.synthesis.template import ExampleTemplate, ended, written


@dataclass(frozen=True, slots=True)
class NoNoise(ChargedAlike):
    """`FewShot` without noise: the candidate of the largest sum. Not private.

    Attributes:
        candidates: K, how many of the public row's likeliest tokens can be drawn.
        rho: Infinite: it has no bound.
        delta: See ``Mechanism``.
    """

    candidates: int
    rho: float = float("inf")
    delta: float = 1.0

    def distribution(self, step: Step) -> torch.Tensor:
        """All of the chance on one candidate, float64 [vocabulary]."""
        at = likeliest(step.public, self.candidates)
        sums = points(step, at).sum(dim=0)
        first = torch.zeros(len(at), dtype=torch.float64)
        first[int(sums.argmax())] = 1.0
        return spread(first, at, len(step.public))


@dataclass(frozen=True, slots=True)
class OpenWriter:
    """Writes a text for a label, each token over a fresh sample.

    Attributes:
        model: Writes.
        template: Of its prompts.
        sampler: Draws the experts of a token.
        mechanism: Draws a token from them.
        max_tokens: Most tokens of a text.
        unit_tokens: Most tokens of an example that are read, for each expert.
    """

    model: LanguageModel
    template: ExampleTemplate
    sampler: Sampler
    mechanism: Mechanism
    max_tokens: int
    unit_tokens: int

    def write(
        self, label: str, examples: Sequence[LabelledDocument], randomness: Randomness
    ) -> str:
        """The text.

        Args:
            label: What it is written for.
            examples: Of this label and of others, which are left out.
            randomness: Where the coins of samples and noise come from.
        """
        pool = pools(examples, [label], 1)[label]
        prompt = self.template.prompt(self.model.tokenizer, label)
        most = prompt.allowance(self.model, self.unit_tokens, self.max_tokens)

        def sample() -> list[Input]:
            shown = (
                [self.template.shown(label, text) for text in texts]
                for texts in self.sampler(pool, randomness)
            )
            return [own for texts in shown if (own := self.model.digest(texts, most))]

        def reading(inputs: list[Input]) -> GrowingRows:
            return read(self.model, prompt, inputs, room=self.max_tokens)

        charge = LabelCharge(
            [label], 1, self.max_tokens, {}, pools=1, token_rho=None, in_ledger=False
        )
        tokens: list[int] = []
        for token in decode(
            FreshSampleRows(sample, reading),
            prompt.suffix,
            self.mechanism,
            TextFilter(charge, label, self.max_tokens),
            randomness,
            max_tokens=self.max_tokens,
            stop_tokens=self.model.tokenizer.stop_tokens,
        ):
            tokens.append(token)
            if ended(self.model.tokenizer, tokens):
                break
        return written(self.model.tokenizer, tokens)
