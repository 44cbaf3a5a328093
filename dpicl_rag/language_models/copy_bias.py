"""Rows that favour words of their own document.

A small model reads a short passage and answers from what it knows. Its chance of a token that the
passage holds is raised before anything is drawn. That is a function of one unit and of public
numbers, so it costs no privacy (docs/privacy.md).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping, Sequence

import torch

from dpicl_rag.language_models.base import Copying, LanguageModel
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer

Tokens = Sequence[int]


def copying(model: LanguageModel, bias: float, *, public: bool = False) -> LanguageModel:
    """The model whose experts favour words of their own input; as it is where it cannot, or for 0.

    Args:
        model: Any language model.
        bias: See ``Copying``.
        public: Whether the public row does so too.
    """
    if not bias or not isinstance(model, Copying):
        return model
    return model.copying(bias, public=public)


class CopyBias:
    """``p(y) exp(bias) / Z`` for a row's own tokens and the end, ``p(y) / Z`` for others.

    Every row is computed by itself, over its own tokens: bit for bit a function of them.

    Args:
        bias: Added to the log-probability of a token, in nats.
        inputs: What each row reads; None for one that favours nothing.
        spellings: The other token of a word, with a leading space or without: what a line of a
            document begins with may stand inside the answer.
        ends: Tokens that end an answer. They are favoured too: else answers would go on for as
            long as there are words to copy.
        device: Where rows are.
    """

    def __init__(
        self,
        bias: float,
        inputs: Sequence[Tokens | None],
        spellings: Mapping[int, int],
        ends: Collection[int],
        device: torch.device,
    ) -> None:
        self._bias = bias
        self._own = [
            None
            if own is None
            else torch.tensor(sorted({*own, *ends, *(spellings.get(id, id) for id in own)})).to(
                device
            )
            for own in inputs
        ]

    def only(self, rows: Sequence[int]) -> CopyBias:
        """The same for some of the rows."""
        other = copy.copy(self)
        other._own = [self._own[row] for row in rows]
        return other

    def apply(self, log_probs: torch.Tensor) -> None:
        """Favour each row's own tokens, in place.

        Args:
            log_probs: Float32 [rows, places, vocabulary].
        """
        gain = math.expm1(self._bias)
        for row, own in zip(log_probs, self._own, strict=True):
            if own is None:
                continue
            for place in row:
                favoured = place[own]
                # In float64 the parts of a distribution add up to one.
                shift = favoured.double().exp().sum().mul(gain).log1p()
                place.sub_(shift)
                place[own] = (favoured.double() + (self._bias - shift)).float()


def copy_bias_of(
    bias: float,
    public: bool,
    inputs: Sequence[Tokens],
    tokenizer: HuggingFaceTokenizer,
    device: torch.device,
) -> CopyBias | None:
    """The bias towards the inputs of some rows; None for a bias of 0.

    Args:
        bias: See ``Copying``.
        public: Whether the first row, the public one, favours its words too.
        inputs: What each row reads.
        tokenizer: Knows spellings, and what ends an answer.
        device: Where rows are.
    """
    if not bias:
        return None
    favoured = (inputs[0] if public else None, *inputs[1:])
    return CopyBias(bias, favoured, tokenizer.other_spellings, tokenizer.stop_tokens, device)
