"""The protocol of Ray workers: requests that say all that they need, and messages of any length.

A request carries the log of its rows, from prefix and inputs on: the same moves on the same inputs
give the same bits, in any process and company. So what a worker answers is a function of the
request, and rows that it has are a cache, known by a number that `WorkerPool` gave out:

- It goes on from what it has of the log, or begins anew. Steps that nobody looks at any more, and
  rows that nobody has, are forgotten.
- The inputs come with the first request of rows. A worker that was not there then, since Ray
  started it again, replies ``lacks``, and gets the request with the inputs.
- To ask twice changes nothing. So Ray repeats by itself what it lost.

Ray puts arguments and results of more than 100 KB into its object store, which may write them to
disk. So messages travel in parts of a public size: those of a request before it (`Worker.hold`),
those of a reply after it (`Worker.more`). Nothing refuses a long one: how long it is follows from
what units hold. A message with a part missing, or of another one, fits no digest; then all of it
is sent again, inputs too.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpicl_rag.language_models.base import BlockRows, Input, Rows
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import Utility

PART = 64 << 10
"""Most bytes of a part of a message."""

_HEAD = struct.Struct("<Q32s")  # length and SHA-256 of a message

Tokens = tuple[int, ...]


def parts_of(message: bytes) -> list[bytes]:
    """A message in parts. They are bytes alone, which Ray passes on as they are."""
    whole = _HEAD.pack(len(message), hashlib.sha256(message).digest()) + message
    return [whole[at : at + PART] for at in range(0, len(whole), PART)]


def number_of_parts(first: bytes) -> int:
    """Number of parts of a message, from the first one."""
    length: int = _HEAD.unpack_from(first)[0]
    return -(-(_HEAD.size + length) // PART)


def message_of(parts: Iterable[bytes]) -> bytes | None:
    """A message from its parts; None where they are not all of the same."""
    whole = b"".join(parts)
    _, digest = _HEAD.unpack_from(whole)
    message = whole[_HEAD.size :]
    return message if hashlib.sha256(message).digest() == digest else None


@dataclass(frozen=True, slots=True, repr=False)
class Reading:
    """The beginning of rows: prefix and inputs.

    Attributes:
        prefix: Token ids that every row begins with.
        inputs: What the public row reads, then the experts of this worker.
        room: How many tokens will be appended at most.
        bias: How much experts favour words of their own input, see ``Copying``.
        public_copies: Whether the public row does so too.
    """

    prefix: Tokens
    inputs: tuple[Input, ...]
    room: int
    bias: float
    public_copies: bool


@dataclass(frozen=True, slots=True)
class Append:
    """A move: append tokens; a step after each of the last ``keep``."""

    token_ids: Tokens
    keep: int

    def on(self, rows: Rows) -> Sequence[Step]:
        """Make it; its steps."""
        if self.keep == 1:
            return [rows.extend(self.token_ids)]
        assert isinstance(rows, BlockRows)
        return rows.extend_each(self.token_ids, self.keep)


@dataclass(frozen=True, slots=True)
class Rewind:
    """A move: forget the last appended tokens."""

    tokens: int

    def on(self, rows: Rows) -> Sequence[Step]:
        """Make it; no steps."""
        assert isinstance(rows, BlockRows)
        rows.rewind(self.tokens)
        return []


@dataclass(frozen=True, slots=True)
class Score:
    """A move with one step, log-probabilities of continuations; rows stay as they were."""

    continuations: tuple[Tokens, ...]

    def on(self, rows: Rows) -> Sequence[Step]:
        """Make it; its step."""
        return [rows.score(self.continuations)]


Move = Append | Rewind | Score


@dataclass(frozen=True, slots=True)
class StepPlace:
    """The position of a step: rows, the number of the move, and that of the step in it."""

    rows: int
    move: int
    at: int


@dataclass(frozen=True, slots=True)
class Corrected:
    """The step at a place with the prior at another taken out of each expert."""

    step: StepPlace
    priors: StepPlace


StepName = StepPlace | Corrected


@dataclass(frozen=True, slots=True, repr=False)
class History:
    """The log of rows, from their beginning.

    Attributes:
        rows: Their number.
        moves: All of them, from the beginning.
        kept: Steps that may still be asked about.
        reading: The beginning; None for a worker that should have read it.
    """

    rows: int
    moves: tuple[Move, ...]
    kept: frozenset[StepPlace]
    reading: Reading | None


@dataclass(frozen=True, slots=True, repr=False)
class AskSum:
    """Ranges and the sum of a step's experts in whole units; answered by a `Sum`."""

    step: StepName
    utility: Utility
    strength: float
    weights: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class AskLogProbs:
    """Log-probability of a candidate in each expert's row; answered by float64 [experts]."""

    step: StepName
    candidate: int


@dataclass(frozen=True, slots=True, repr=False)
class AskContinuations:
    """Continuations of experts by themselves; rows stay as they were. Answered by one for each."""

    rows: int
    token_ids: Tokens
    most: int
    asked: tuple[bool, ...]


Ask = AskSum | AskLogProbs | AskContinuations


@dataclass(frozen=True, slots=True, repr=False)
class WorkerRequest:
    """All that a worker is asked at once.

    Attributes:
        asks: None is answered by None.
        histories: Of the rows that are asked about.
        alive: Numbers of all rows that somebody has.
    """

    asks: tuple[Ask | None, ...]
    histories: tuple[History, ...] = ()
    alive: frozenset[int] = frozenset()

    def forget_ended(self, *kept: dict[int, Any]) -> None:
        """Drop what is kept of rows that nobody has any more, by their numbers."""
        newest = max(self.alive, default=0)  # later ones this request does not know
        for by_rows in kept:
            for rows in [rows for rows in by_rows if rows < newest and rows not in self.alive]:
                del by_rows[rows]


@dataclass(frozen=True, slots=True, repr=False)
class Sum:
    """Ranges and a sum over the experts of one worker.

    Attributes:
        ranges: Float64 [experts].
        values: Whole units of the grid, int64: of every candidate, or of those at ``index``.
        index: Int32 places of the values that are not 0, where that is shorter.
    """

    ranges: np.ndarray
    values: np.ndarray
    index: np.ndarray | None

    @staticmethod
    def of(ranges: np.ndarray, total: np.ndarray) -> Sum:
        """The shorter way to write a sum.

        Args:
            ranges: See the class.
            total: Int64 [candidates].
        """
        (found,) = total.nonzero()
        if 12 * len(found) < 8 * len(total):
            return Sum(ranges, total[found], found.astype(np.int32))
        return Sum(ranges, total, None)

    def add_to(self, total: np.ndarray) -> None:
        """Add to int64 [candidates], in place."""
        if self.index is None:
            total += self.values
        else:
            total[self.index] += self.values


Answer = Sum | np.ndarray | tuple[Continuation, ...] | None


Code = Literal["done", "lacks", "memory", "failed"]
"""Outcome of a request. ``lacks``: what rows begin with is not there, or a part of the message.
``memory`` and ``failed``: it cannot be done."""


@dataclass(frozen=True, slots=True, repr=False)
class Reply:
    """A worker's reply. Never an error's words.

    Attributes:
        code: See `Code`.
        bits: The digest of the worker's bits, see `bits_of`; empty where it cannot load the model.
        answers: One for each part of the request.
    """

    code: Code
    bits: str
    answers: tuple[Answer, ...] = ()
