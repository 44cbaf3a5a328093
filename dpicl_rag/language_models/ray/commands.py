"""Commands of a driver to a worker, and the replies.

Rows are a log of moves: the same moves on the same inputs give the same bits, in another process
too. A worker counts the moves it has made, so that one that is sent twice is made once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpicl_rag.language_models.base import Input
from dpicl_rag.language_models.sentence_end import Continuation
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
class Append:
    """Append tokens; a step after each of the last ``keep``."""

    token_ids: Tokens
    keep: int


@dataclass(frozen=True, slots=True)
class Rewind:
    """Forget the last appended tokens."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Score:
    """One step: log-probabilities of continuations."""

    continuations: tuple[Tokens, ...]


Move = Append | Rewind | Score


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
class Begin:
    """Read documents into rows of that number, unless they are there."""

    rows: int
    reading: Reading


@dataclass(frozen=True, slots=True)
class Do:
    """Make a move, unless it is made.

    Attributes:
        rows: Of which rows.
        number: Which of their moves it is, from 0 on.
        move: The move.
        keep: Which of its steps are kept; None for all.
    """

    rows: int
    number: int
    move: Move
    keep: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget some steps."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class End:
    """Forget rows and all their steps."""

    rows: int


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
Command = Begin | Do | Drop | End | Ask
Commands = tuple[Command, ...]


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


Answer = Sum | np.ndarray | tuple[Continuation, ...]

Code = Literal["done", "memory", "failed", "behind", "torn", "unsure", "gone", "late"]
"""Outcome of commands. ``memory`` and ``failed``: it cannot be done. ``behind``: it goes on with
rows that are not there. ``torn``: a part of it, or of its reply, is not there. The driver adds
``unsure``, where it may have been done or not, ``gone`` for a dead worker, and ``late``."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A worker's reply: a code and the answers. Never an error's words."""

    code: Code
    answers: tuple[Answer, ...] = ()
