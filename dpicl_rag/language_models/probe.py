"""Probes on random documents: a model's rows may share passes, and are right.

The order of additions follows from shapes and the machine, never from values, so random documents
show a row that moves almost surely.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch

from dpicl_rag.language_models.transformers_rows import TransformersRows
from dpicl_rag.mechanisms.step import DenseStep, Step

Read = Callable[[Sequence[int], Sequence[tuple[int, ...]]], TransformersRows]
"""Reads a prefix and inputs into rows with room for `ROOM` tokens."""

Forward = Callable[[Sequence[int]], torch.Tensor]
"""Log-probabilities after some tokens, from the model's own forward pass [vocabulary]."""

Attempt = Callable[[Read, Forward, int, int], bool]
"""One of the two below."""

VERSION = "probe 2"
"""Raised whenever more is asked: what was found to hold before is tried again."""

ROOM = 20
_CROWD = 40
_PREFIX, _SHORT, _MIDDLE = 11, 8, 33
_LONG = 70, 131  # in groups of their own, where nobody or others join them
# Largest part of the differences between tokens that rounding may move: 0.03 was seen in 16 bits.
# Words that look ahead move 0.15, a lost prefix or a wrong position more.
_ROUNDING = 0.1


def rows_are_their_own(read: Read, forward: Forward, vocabulary: int, longest: int) -> bool:
    """True of rows that keep their bits in a crowd, and say what the model says by itself.

    Args:
        read: Reads rows that share passes.
        forward: The model by itself.
        vocabulary: Token ids lie below it.
        longest: Most tokens of a row.
    """
    coins = random.Random(0)  # noqa: S311
    most = max(1, longest - _PREFIX - ROOM)

    def tokens(count: int) -> tuple[int, ...]:
        return _tokens(coins, vocabulary, min(count, most))

    prefix, public = tokens(_PREFIX), tokens(3)
    known = [tokens(count) for count in (5, _MIDDLE, *_LONG)]
    crowd = [tokens(coins.randint(1, _SHORT)) for _ in range(_CROWD)]
    crowd[:2] = [tokens(count + 1) for count in _LONG]
    blocks = (tokens(9), tokens(1), tokens(3))
    labels = [tokens(1), tokens(3)]

    def steps(inputs: Sequence[tuple[int, ...]]) -> list[Step]:
        rows = read(prefix, [public, *inputs])
        found = [rows.extend(block) for block in blocks[:2]]
        found += rows.extend_each(blocks[2], keep=3)
        return [*found, rows.score(labels)]

    crowded = steps([*crowd[: _CROWD // 2], *known, *crowd[_CROWD // 2 :]])
    among = range(_CROWD // 2, _CROWD // 2 + len(known))
    for place, document in zip(among, known, strict=True):
        pairs = zip(steps([document]), crowded, strict=True)
        if not all(_same(one, 0, other, place) for one, other in pairs):
            return False
    return rows_are_right(read, forward, vocabulary, longest)


def rows_are_right(read: Read, forward: Forward, vocabulary: int, longest: int) -> bool:
    """True of rows that say what the model says by itself; arguments as above.

    A model whose words look ahead, or that keeps a state of another kind, does not.
    """
    coins = random.Random(1)  # noqa: S311
    document_length = max(1, min(_MIDDLE, longest - _PREFIX - ROOM))
    prefix, public, document, *blocks = (
        _tokens(coins, vocabulary, count) for count in (_PREFIX, 3, document_length, 9, 1, 1)
    )
    rows = read(prefix, [public, document])
    seen = [*prefix, *document]
    for block in blocks:
        seen += block
        found, expected = _experts(rows.extend(block))[0], forward(seen)
        spread = (expected - expected.mean()).abs().mean()
        if not (found - expected).abs().mean() <= _ROUNDING * spread:
            return False
    return True


def _tokens(coins: random.Random, vocabulary: int, count: int) -> tuple[int, ...]:
    return tuple(coins.randrange(vocabulary) for _ in range(count))


def _same(one: Step, place: int, other: Step, elsewhere: int) -> bool:
    """Equality of public rows and of experts' rows, bit by bit."""
    return torch.equal(one.public, other.public) and torch.equal(
        _experts(one)[place], _experts(other)[elsewhere]
    )


def _experts(step: Step) -> torch.Tensor:
    assert isinstance(step, DenseStep)
    return step.experts
