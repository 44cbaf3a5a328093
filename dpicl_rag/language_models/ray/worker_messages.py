"""Requests to a worker, and its replies: each request says all that it needs.

Rows are a log of moves: the same moves on the same inputs give the same bits, in another process
too. So a request tells the whole log, and a worker goes on from what it has of it, or begins anew.
To ask twice changes nothing, which Ray does by itself where a worker or a connection is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpicl_rag.language_models.base import Input, Rows
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import Utility

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
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
class Move:
    """A method of rows that changes or scores them, and its arguments."""

    method: Literal["extend", "extend_each", "rewind", "score"]
    arguments: tuple[Any, ...]

    def on(self, rows: Rows) -> list[Step]:
        """Make it.

        Returns:
            Its steps.
        """
        found = getattr(rows, self.method)(*self.arguments)
        return found if isinstance(found, list) else [] if found is None else [found]


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a step: rows, the number of the move, and that of the step in it."""

    rows: int
    move: int
    at: int


@dataclass(frozen=True, slots=True)
class Corrected:
    """The step at a place with the prior at another taken out of each expert."""

    step: Place
    priors: Place


StepName = Place | Corrected


@dataclass(frozen=True, slots=True)
class History:
    """All that rows are.

    Attributes:
        rows: Their number.
        moves: All of them, from the beginning.
        kept: Steps that may still be asked about.
        reading: What they begin with; None for a worker that should have read it.
    """

    rows: int
    moves: tuple[Move, ...]
    kept: frozenset[Place]
    reading: Reading | None


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class AskContinuations:
    """What experts say by themselves; rows stay as they were. Answered by one for each.

    Attributes:
        rows: Of which rows.
        token_ids: What they read first.
        most: Tokens that each says at most.
        asked: Which experts of this worker are asked.
    """

    rows: int
    token_ids: Tokens
    most: int
    asked: tuple[bool, ...]


Ask = AskSum | AskLogProbs | AskContinuations


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """What a worker is to answer.

    Attributes:
        asks: None is answered by None.
        histories: Of the rows that are asked about.
        alive: Numbers of all rows that somebody has; a worker forgets the earlier others.
    """

    asks: tuple[Ask | None, ...]
    histories: tuple[History, ...] = ()
    alive: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Reply:
    """A worker's reply. Never an error's words.

    Attributes:
        code: ``lacks``: rows are not there, and the request does not say what they begin with.
            ``long``: it comes in more parts. ``memory`` and ``failed``: it cannot be done.
        bits: The digest of the worker's bits, see `bits_of`; empty where it cannot load the model.
        answers: One for each part of the request.
        parts: How many parts a long reply has.
    """

    code: Literal["done", "lacks", "long", "memory", "failed"]
    bits: str
    answers: tuple[Answer, ...] = ()
    parts: int = 1
