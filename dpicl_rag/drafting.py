"""Proposals of the next tokens, from public text and released tokens alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from dpicl_rag.language_models.base import BlockRows


class Draft(Protocol):
    """Guesses how an answer goes on. It must not know anything private."""

    def propose(self, tokens: Sequence[int], most: int) -> list[int]:
        """Tokens that may come next; none is a good guess too.

        Args:
            tokens: Everything behind the public document: suffix, then released tokens.
            most: Most tokens proposed.
        """
        ...


class GreedyDraft:
    """The likeliest tokens of the public row, for as long as they are likely enough.

    The block's length follows the public model's confidence: it ends where the probability of the
    whole block, by the public model, falls below ``confidence``. Under ``p_0^g`` as the base
    measure a token that the public model is sure of is nearly always drawn.

    Args:
        rows: The public row by itself. In one batch with experts its last bits would depend on
            them, and so would the proposals.
        block_tokens: Most tokens of a block.
        confidence: Least public probability of a block.
    """

    def __init__(self, rows: BlockRows, block_tokens: int, confidence: float = 0.5) -> None:
        self._rows = rows
        self._block_tokens = block_tokens
        self._confidence = confidence
        self._read: list[int] = []

    def propose(self, tokens: Sequence[int], most: int) -> list[int]:
        """See ``Draft.propose``."""
        # The last token is always read anew, for what follows it.
        known = _common(self._read, tokens[:-1])
        if known < len(self._read):
            self._rows.rewind(len(self._read) - known)
            del self._read[known:]
        step: Sequence[int] = tokens[known:]
        block: list[int] = []
        sure = 0.0
        while len(block) < min(most, self._block_tokens):
            log_prob, token = self._rows.extend(step)[0].max(dim=-1)
            self._read += step
            sure += float(log_prob)
            if sure < math.log(self._confidence):
                break
            block.append(int(token))
            step = block[-1:]
        return block


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    differing = (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(differing, min(len(one), len(other)))
