"""Requests for parts of a step: sent to every worker, their answers merged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence, Set
from typing import Protocol

import numpy as np
import torch

from dpicl_rag.language_models.ray.commands import (
    Answer,
    Ask,
    AskContinuations,
    AskLogProbs,
    AskSum,
    Command,
    Corrected,
    Place,
    StepName,
    Sum,
    Tokens,
)
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.mechanisms.utilities import Utility


class SpreadRows(Protocol):
    """What a step needs of the rows that it is of; see `RayRows`.

    Attributes:
        places: Which experts each worker has.
        wanted: What is asked with the next call.
        dropped: Steps that nobody asks about any more.
        usual: How steps were summed last.
    """

    places: list[torch.Tensor]
    wanted: list[StepRequest]
    dropped: deque[Place]
    usual: tuple[Utility, float] | None

    def fetch(self, request: StepRequest) -> None:
        """Ask every worker."""
        ...

    def in_order(self, parts: Sequence[np.ndarray | None]) -> torch.Tensor:
        """Values of all experts in their order, from those of each worker."""
        ...

    def story(self, worker: int, places: Set[Place]) -> list[Command]:
        """All that a worker must know of to answer."""
        ...


class StepRequest(ABC):
    """A request for part of a step. It comes when it is needed, or with an earlier call.

    Args:
        rows: The rows of the step.
        name: What workers know the step by.
        others: Other rows that it needs.
    """

    def __init__(
        self, rows: SpreadRows, name: StepName, others: tuple[SpreadRows, ...] = ()
    ) -> None:
        self._rows = rows
        self._name = name
        self.others = others
        self.here = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<private>)"

    @property
    def places(self) -> tuple[Place, ...]:
        """Steps that a worker must have for it."""
        name = self._name
        return (name.step, name.priors) if isinstance(name, Corrected) else (name,)

    @abstractmethod
    def ask(self, worker: int) -> Ask | None:
        """The command for a worker with experts, if any."""

    @abstractmethod
    def take(self, answers: Sequence[Answer | None]) -> None:
        """Merge answers; None of a worker that was asked nothing."""

    def come(self) -> None:
        """Fetch it, unless it is here."""
        if not self.here:
            self._rows.fetch(self)


class LogProbs(StepRequest):
    """Log-probability of a candidate in every expert's row."""

    def __init__(
        self,
        rows: SpreadRows,
        name: StepName,
        candidate: int,
        others: tuple[SpreadRows, ...] = (),
    ) -> None:
        super().__init__(rows, name, others)
        self._candidate = candidate
        self._found = torch.zeros(0)

    def __call__(self) -> torch.Tensor:
        """See `Step.log_probs`."""
        self.come()
        return self._found

    def ask(self, worker: int) -> Ask:
        """See `StepRequest`."""
        return AskLogProbs(self._name, self._candidate)

    def take(self, answers: Sequence[Answer | None]) -> None:
        """See `StepRequest`."""
        parts = [answer if isinstance(answer, np.ndarray) else None for answer in answers]
        self._found, self.here = self._rows.in_order(parts), True


class Continued(StepRequest):
    """What experts say by themselves.

    Args:
        rows: The rows.
        number: What workers know them by.
        token_ids: What the rows read first.
        most: Tokens that each says at most. Public.
        asked: Which experts are asked.

    Attributes:
        found: One of each expert, in the order of all, once it is here. Private.
    """

    def __init__(
        self,
        rows: SpreadRows,
        number: int,
        token_ids: Tokens,
        most: int,
        asked: Sequence[bool],
    ) -> None:
        super().__init__(rows, Place(number, 0, 0))
        self._number, self._token_ids, self._most = number, token_ids, most
        self._asked = asked
        self.found: list[Continuation] = []

    @property
    def places(self) -> tuple[Place, ...]:
        """None: no step."""
        return ()

    def ask(self, worker: int) -> Ask:
        """See `StepRequest`."""
        own = tuple(self._asked[place] for place in self._rows.places[worker].tolist())
        return AskContinuations(self._number, self._token_ids, self._most, own)

    def take(self, answers: Sequence[Answer | None]) -> None:
        """See `StepRequest`."""
        said = {
            place: one
            for places, part in zip(self._rows.places, answers, strict=True)
            if isinstance(part, tuple)
            for place, one in zip(places.tolist(), part, strict=True)
        }
        self.found, self.here = [said[place] for place in sorted(said)], True


class Summed(StepRequest):
    """Ranges of all experts of a step, and their sum.

    Args:
        rows: See `StepRequest`.
        name: See `StepRequest`.
        utility: See `Step`.
        strength: See `Step`.
        others: See `StepRequest`.
        weights: See `Step`.
        plain: The same with a weight of one each: it stands where a worker's all are one.
    """

    def __init__(
        self,
        rows: SpreadRows,
        name: StepName,
        utility: Utility,
        strength: float,
        others: tuple[SpreadRows, ...] = (),
        *,
        weights: torch.Tensor | None = None,
        plain: Summed | None = None,
    ) -> None:
        super().__init__(rows, name, others)
        self._way = utility, strength
        self._weights = None if weights is None else weights.cpu()
        self._plain = plain
        self._parts: tuple[Sum | None, ...] = ()

    def ask(self, worker: int) -> Ask | None:
        """See `StepRequest`."""
        own = None
        if self._weights is not None:
            own = self._weights[self._rows.places[worker]].numpy()
            if self._plain is not None and bool((own == 1).all()):
                return None
        return AskSum(self._name, *self._way, own)

    def take(self, answers: Sequence[Answer | None]) -> None:
        """See `StepRequest`."""
        plain = (None,) * len(answers) if self._plain is None else self._plain.parts()
        found = zip(answers, plain, strict=True)
        self._parts = tuple(new if isinstance(new, Sum) else old for new, old in found)
        self.here = True

    def parts(self) -> tuple[Sum | None, ...]:
        """By worker; None for one without experts."""
        self.come()
        return self._parts

    def ranges(self) -> torch.Tensor:
        """See `Step.ranges`."""
        return self._rows.in_order([part.ranges if part else None for part in self.parts()])

    def total(self, candidates: int) -> torch.Tensor:
        """Whole units of the grid, int64 [candidates]."""
        total = np.zeros(candidates, dtype=np.int64)
        for part in self.parts():
            if part is not None:
                part.add_to(total)
        return torch.from_numpy(total)
