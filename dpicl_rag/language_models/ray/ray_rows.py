"""The running rows of one answer, and their steps, spread over workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TypeVar
from weakref import WeakValueDictionary

import numpy as np
import torch

from dpicl_rag.language_models.base import Progress, Rows, Tenths
from dpicl_rag.language_models.ray.worker_messages import (
    Answer,
    Append,
    Ask,
    AskContinuations,
    AskLogProbs,
    AskSum,
    Corrected,
    History,
    Move,
    Reading,
    Rewind,
    Score,
    StepName,
    StepPlace,
    Sum,
    WorkerRequest,
)
from dpicl_rag.language_models.ray.worker_pool import WorkerPool
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.mechanisms.step import Step, grid
from dpicl_rag.mechanisms.utilities import Utility

T = TypeVar("T")


class RayRows:
    """The public row, in this process, and experts that are shared out to workers.

    Every move is noted, with the tokens cut as they were: a worker in the place of another makes
    the same moves again, and stands where that one stood, to the last bit.

    Args:
        pool: The workers.
        read: Reads the public row in this process.
        readings: What each worker's rows begin with; None for one without experts, which takes
            part all the same.
        places: Of each worker's experts among all.
        on_progress: Called with the part of the workers that has read.

    Attributes:
        wanted: Comes with the next call.
        usual: Utility and strength that were asked for last: sums come with later steps.

    Raises:
        EngineUnavailableError: A worker did not answer in time.
        NotEnoughMemoryError: A worker has too little memory.
    """

    def __init__(
        self,
        pool: WorkerPool,
        read: Callable[[], Rows],
        readings: Sequence[Reading | None],
        places: Sequence[Sequence[int]],
        on_progress: Progress | None,
    ) -> None:
        self._pool = pool
        self._id = pool.new_rows()
        self._readings = readings
        self._places = [torch.tensor(own, dtype=torch.int64) for own in places]
        self._moves: list[Move] = []
        self._alive: WeakValueDictionary[StepPlace, RayStep] = WeakValueDictionary()
        self.wanted: list[AskedOfWorkers] = []
        self.usual: tuple[Utility, float] | None = None
        self._public = self.exchange(read, Tenths(pool.size, on_progress), whole=True)

    def __repr__(self) -> str:
        return "RayRows(<private>)"

    def __del__(self) -> None:
        self._pool.forget(self._id)

    def extend(self, token_ids: Sequence[int]) -> Step:
        """Append the same tokens to every row."""
        return self.extend_each(token_ids, 1)[0]

    def extend_each(self, token_ids: Sequence[int], keep: int) -> list[Step]:
        """Append the same tokens to every row; a step after each of the last ``keep``."""
        tokens = tuple(token_ids)
        steps = self._steps(keep)
        # What follows a place in a block is what its experts will be asked about.
        for step, token in zip(steps, tokens[len(tokens) - keep + 1 :], strict=False):
            step.log_probs_later(token)
        if self.usual is not None:
            self.wanted += [step.summed(*self.usual) for step in steps]
        return self._made(Append(tokens, keep), steps)

    def rewind(self, tokens: int) -> None:
        """Forget the last ``tokens`` appended tokens."""
        move = Rewind(tokens)
        self._moves.append(move)  # sent with the next call
        move.on(self._public)

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        """Log-probabilities of continuations, normalised over them; rows stay as they were."""
        move = Score(tuple(map(tuple, continuations)))
        return self._made(move, self._steps(1))[0]

    def continue_each(
        self, token_ids: Sequence[int], most: int, asked: Sequence[bool]
    ) -> list[Continuation]:
        """Continuations of experts by themselves, in one round; see ``SpeakingRows``."""
        tokens = tuple(token_ids)

        def ask(worker: int) -> Ask:
            own = tuple(asked[place] for place in self._places[worker].tolist())
            return AskContinuations(self._id, tokens, most, own)

        said: dict[int, Continuation] = {}
        for places, part in zip(self._places, AskedOfWorkers(self, ask).come(), strict=True):
            if isinstance(part, tuple):
                said |= zip(places.tolist(), part, strict=True)
        return [said[place] for place in sorted(said)]

    def in_order(self, parts: Sequence[object]) -> torch.Tensor:
        """Values that workers give for their experts, in the order of all: float64 [n]."""
        found = torch.zeros(sum(map(len, self._places)), dtype=torch.float64)
        for places, part in zip(self._places, parts, strict=True):
            if isinstance(part, np.ndarray):
                found[places] = torch.from_numpy(part)
        return found

    def of_worker(self, worker: int, values: torch.Tensor) -> np.ndarray:
        """Values of a worker's experts, out of those of all."""
        return values.cpu()[self._places[worker]].numpy()

    def exchange(
        self,
        meanwhile: Callable[[], T],
        advance: Callable[[int], None] = lambda _: None,
        *,
        whole: bool = False,
    ) -> T:
        """Ask all workers what is wanted, with all that it needs, and wait for the answers.

        Args:
            meanwhile: What this process does until then.
            advance: Called for each worker that has answered.
            whole: Whether no worker has read.

        Returns:
            What ``meanwhile`` returns.
        """
        wanted, self.wanted = self.wanted, []
        places = {place for asked in wanted for place in asked.places}
        needed = dict.fromkeys([self, *(rows for asked in wanted for rows in asked.others)])

        def request(worker: int, whole: bool) -> WorkerRequest:
            if self._readings[worker] is None:
                return WorkerRequest((None,) * len(wanted))
            return WorkerRequest(
                tuple(asked.ask(worker) for asked in wanted),
                tuple(rows._history(worker, places, whole) for rows in needed),
                self._pool.rows,
            )

        with self._pool.send(self._id, request, whole=whole) as calls:
            found = meanwhile()
            answers = []
            for call in calls:
                answers.append(call.answers())
                advance(1)
        for asked, parts in zip(wanted, zip(*answers, strict=True), strict=True):
            asked.answers = parts
        return found

    def _steps(self, count: int) -> list[RayStep]:
        """The steps of the next move."""
        names = [StepPlace(self._id, len(self._moves), at) for at in range(count)]
        steps = [RayStep(self, name) for name in names]
        self._alive.update(zip(names, steps, strict=True))
        return steps

    def _made(self, move: Move, steps: Sequence[RayStep]) -> list[Step]:
        """The steps of a move, which workers and the public row make."""
        self._moves.append(move)
        made = self.exchange(lambda: move.on(self._public))
        for step, found in zip(steps, made, strict=True):
            step.public = found.public
        return list(steps)

    def _history(self, worker: int, places: Set[StepPlace], whole: bool) -> History:
        """All that these rows are; steps that nobody looks at any more are not kept."""
        kept = frozenset(place for place in {*places, *self._alive} if place.rows == self._id)
        reading = self._readings[worker] if whole else None
        return History(self._id, tuple(self._moves), kept, reading)


class RayStep:
    """A `Step` on many machines: it asks its workers for what did not come with it.

    Args:
        rows: The rows that it is of.
        name: What workers know it by.
        corrects: Where it is a corrected step, this one and that of the priors.

    Attributes:
        public: The public row [candidates], computed by this process.
    """

    public: torch.Tensor

    def __init__(self, rows: RayRows, name: StepName, corrects: tuple[RayStep, ...] = ()) -> None:
        self.rows = rows
        self.name = name
        self._sums: dict[tuple[Utility, float], AskedOfWorkers] = {}
        self._said: dict[int, Callable[[], torch.Tensor]] = {}
        self._corrects = corrects  # workers keep them as long as this is

    def __repr__(self) -> str:
        return "RayStep(<private>)"

    def ranges(self, utility: Utility, strength: float) -> torch.Tensor:
        """See `Step.ranges`."""
        parts = self.summed(utility, strength).come()
        ranges = [part.ranges if isinstance(part, Sum) else None for part in parts]
        return self.rows.in_order(ranges).to(self.public.device)

    def weighted_sum(
        self, utility: Utility, strength: float, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """See `Step.weighted_sum`."""
        parts = self.summed(utility, strength).come()
        if weights is not None and bool((weights != 1).any()):
            found = self._asked(lambda worker: self._reweighed(worker, utility, strength, weights))
            parts = [new or old for new, old in zip(found.come(), parts, strict=True)]
        total = np.zeros(len(self.public), dtype=np.int64)
        for part in parts:
            if isinstance(part, Sum):
                part.add_to(total)
        return torch.from_numpy(total).to(self.public.device).double() * grid(utility, strength)

    def log_probs(self, candidate: int) -> torch.Tensor:
        """See `Step.log_probs`."""
        return self.log_probs_later(candidate)()

    def log_probs_later(self, candidate: int) -> Callable[[], torch.Tensor]:
        """See `DistantStep`."""
        if candidate not in self._said:
            rows, ask = self.rows, AskLogProbs(self.name, candidate)
            asked = self._asked(lambda worker: ask)
            rows.wanted.append(asked)
            self._said[candidate] = lambda: rows.in_order(asked.come())
        return self._said[candidate]

    def corrected(self, priors: Step) -> RayStep:
        """See `Step.corrected`."""
        assert isinstance(priors, RayStep)
        assert isinstance(self.name, StepPlace)
        assert isinstance(priors.name, StepPlace)
        found = RayStep(self.rows, Corrected(self.name, priors.name), (self, priors))
        found.public = self.public
        return found

    def summed(self, utility: Utility, strength: float) -> AskedOfWorkers:
        """Ranges and the sum of each worker's experts."""
        way = self.rows.usual = utility, strength
        if way not in self._sums:
            ask = AskSum(self.name, *way)
            self._sums[way] = self._asked(lambda worker: ask)
        return self._sums[way]

    def _reweighed(
        self, worker: int, utility: Utility, strength: float, weights: torch.Tensor
    ) -> Ask | None:
        """The sum with other weights than one, if any of the worker's experts has such a one."""
        own = self.rows.of_worker(worker, weights)
        return None if bool((own == 1).all()) else AskSum(self.name, utility, strength, own)

    def _asked(self, ask: Callable[[int], Ask | None]) -> AskedOfWorkers:
        name, others = self.name, [step.rows for step in self._corrects[1:]]
        places = (name.step, name.priors) if isinstance(name, Corrected) else (name,)
        return AskedOfWorkers(self.rows, ask, places, others)


class AskedOfWorkers:
    """A question to every worker. Its answers come when they are needed, or with an earlier call.

    Args:
        rows: The rows that it is about.
        ask: What a worker with experts is asked, if anything.
        places: Steps that it needs.
        others: Other rows that it needs.

    Attributes:
        ask: See above.
        places: See above.
        others: See above.
        answers: One of each worker, None of one that was asked nothing; None until they are here.
    """

    def __init__(
        self,
        rows: RayRows,
        ask: Callable[[int], Ask | None],
        places: Sequence[StepPlace] = (),
        others: Sequence[RayRows] = (),
    ) -> None:
        self._rows = rows
        self.ask = ask
        self.places = places
        self.others = others
        self.answers: Sequence[Answer] | None = None

    def __repr__(self) -> str:
        return "AskedOfWorkers(<private>)"

    def come(self) -> Sequence[Answer]:
        """The answers; fetched with all that is wanted, unless they are here."""
        if self.answers is None:
            if self not in self._rows.wanted:
                self._rows.wanted.append(self)
            self._rows.exchange(lambda: None)
        assert self.answers is not None
        return self.answers
