"""Whether a model's rows may share passes: tried on random documents, bit by bit.

The order of additions follows from shapes and the machine, never from values, so random documents
show a row that moves almost surely.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch

from dpicl_rag.language_models.rows import TransformersRows
from dpicl_rag.mechanisms.step import DenseStep, Step

Read = Callable[[Sequence[int], Sequence[tuple[int, ...]]], TransformersRows]
"""Reads a prefix and inputs into rows that share passes, with room for `ROOM` tokens."""

ROOM = 20
_COMPANY = 40
_SHORT, _LONGEST = 8, 33
# Least part of probability that another order of additions leaves in place. A wrong mask, a wrong
# position or a lost prefix moves more.
_LIKENESS = 0.8


def rows_are_their_own(
    read: Read, forward: Callable[[Sequence[int]], torch.Tensor], vocabulary: int
) -> bool:
    """Whether rows keep their bits in company, and say what the model says by itself.

    Args:
        read: Reads rows that share passes.
        forward: Log-probabilities after some tokens, from the model's own forward pass
            [vocabulary].
        vocabulary: Token ids lie below it.
    """
    coins = random.Random(0)  # noqa: S311

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(coins.randrange(vocabulary) for _ in range(count))

    prefix, public = tokens(11), tokens(3)
    known = [tokens(5), tokens(_LONGEST)]
    company = [tokens(coins.randint(1, _SHORT)) for _ in range(_COMPANY)]
    company[3] = tokens(2 * _LONGEST)  # in another group than all others
    blocks = (tokens(9), tokens(1), tokens(3))
    labels = [tokens(1), tokens(3)]

    def steps(inputs: Sequence[tuple[int, ...]]) -> list[Step]:
        rows = read(prefix, [public, *inputs])
        found = [rows.extend(block) for block in blocks[:2]]
        found += rows.extend_each(blocks[2], keep=3)
        return [*found, rows.score(labels)]

    crowded = steps([*company[: _COMPANY // 2], *known, *company[_COMPANY // 2 :]])
    among = range(_COMPANY // 2, _COMPANY // 2 + len(known))
    for place, document in zip(among, known, strict=True):
        alone = steps([document])
        pairs = zip(alone, crowded, strict=True)
        if not all(_same(one, 0, other, place) for one, other in pairs):
            return False
        expected = forward([*prefix, *document, *blocks[0]])
        overlap = torch.minimum(expected.exp(), _experts(alone[0])[0].exp()).sum()
        if not overlap >= _LIKENESS:
            return False
    return True


def _same(one: Step, place: int, other: Step, elsewhere: int) -> bool:
    """Whether the public row and an expert's row are the same, bit by bit."""
    return torch.equal(one.public, other.public) and torch.equal(
        _experts(one)[place], _experts(other)[elsewhere]
    )


def _experts(step: Step) -> torch.Tensor:
    assert isinstance(step, DenseStep)
    return step.experts
