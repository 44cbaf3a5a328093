"""What the private path returns: a DP output and public numbers, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

StoppedBy = Literal["end", "length", "budget"]
"""Why an answer ended: the model's end token or a stop string, ``max_tokens``, or the budget."""


@dataclass(frozen=True, slots=True)
class PrivateAnswer:
    """A private answer.

    Attributes:
        text: The released text.
        epsilon: The answer as a whole is (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho charged for the answer. Under individual accounting it is a bound that
            holds for every unit (its worst cost per token, up to the answer's budget), not what
            any unit has spent.
        tokens: Number of released tokens, the end token included.
        stopped_by: Why it ended.
    """

    text: str
    epsilon: float
    delta: float
    rho: float
    tokens: int
    stopped_by: StoppedBy


@dataclass(frozen=True, slots=True)
class PrivateLabel:
    """A private choice among labels.

    Attributes:
        label: The label drawn, as it was given.
        epsilon: The choice is (epsilon, delta)-DP for every privacy unit.
        delta: Zero, as one draw over labels is purely DP, unless the search for documents was
            charged too.
        rho: zCDP rho charged for it.
    """

    label: str
    epsilon: float
    delta: float
    rho: float
