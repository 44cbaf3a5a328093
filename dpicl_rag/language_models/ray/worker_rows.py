"""The running rows of one answer, spread over workers."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from weakref import WeakValueDictionary

import numpy as np
import torch

from dpicl_rag.language_models.base import BlockRows, Progress, Rows, in_tenths
from dpicl_rag.language_models.ray.commands import (
    Answer,
    Append,
    Begin,
    Command,
    Commands,
    Do,
    Drop,
    End,
    Move,
    Place,
    Reading,
    Rewind,
    Score,
)
from dpicl_rag.language_models.ray.step_requests import Continued, LogProbs, StepRequest, Summed
from dpicl_rag.language_models.ray.worker_pool import WorkerPool
from dpicl_rag.language_models.ray.worker_step import RayStep
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import Utility

_numbers = itertools.count()
_UNREAD = -1


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
        places: See above.
        wanted: Comes with the next call.
        dropped: Steps that nobody looks at any more.
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
        self._id = next(_numbers)
        self._readings = readings
        self._moves: list[Move] = []
        self._made = [_UNREAD] * pool.size
        self._alive: WeakValueDictionary[Place, RayStep] = WeakValueDictionary()
        self.places = [torch.tensor(own, dtype=torch.int64) for own in places]
        self.wanted: list[StepRequest] = []
        self.dropped: deque[Place] = deque()
        self.usual: tuple[Utility, float] | None = None
        receive = self._send(())
        self._public = read()
        receive(in_tenths(pool.size, on_progress))

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
        names = [Place(self._id, len(self._moves), at) for at in range(keep)]
        # What follows a place in a block is what its experts will be asked about.
        next_ones = tokens[len(tokens) - keep + 1 :]
        said = [LogProbs(self, *one) for one in zip(names, next_ones, strict=False)]
        usual = self.usual
        sums = [] if usual is None else [Summed(self, name, *usual) for name in names]
        receive = self._move(Append(tokens, keep), (*said, *sums))
        if keep > 1:
            assert isinstance(self._public, BlockRows)
            found = self._public.extend_each(tokens, keep)
        else:
            found = [self._public.extend(tokens)]
        receive()
        steps = [self._step(one, name) for one, name in zip(found, names, strict=True)]
        for step, token, one in zip(steps, next_ones, said, strict=False):
            step.said[token] = one
        for step, two in zip(steps, sums, strict=False):
            assert usual is not None
            step.sums[usual] = two
        return list(steps)

    def rewind(self, tokens: int) -> None:
        """Forget the last ``tokens`` appended tokens."""
        assert isinstance(self._public, BlockRows)
        self._moves.append(Rewind(tokens))  # sent with the next call
        self._public.rewind(tokens)

    def continue_each(
        self, token_ids: Sequence[int], most: int, asked: Sequence[bool]
    ) -> list[Continuation]:
        """What experts say by themselves, in one round; see ``SpeakingRows``."""
        said = Continued(self, self._id, tuple(token_ids), most, asked)
        self._send((said,))()
        return said.found

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        """Log-probabilities of continuations, normalised over them; rows stay as they were."""
        name = Place(self._id, len(self._moves), 0)
        receive = self._move(Score(tuple(map(tuple, continuations))), ())
        found = self._public.score(continuations)
        receive()
        return self._step(found, name)

    def fetch(self, request: StepRequest) -> None:
        """Have it come, and all that is wanted."""
        self._send(() if request in self.wanted else (request,))()

    def in_order(self, parts: Sequence[np.ndarray | None]) -> torch.Tensor:
        """Values that workers give for their experts, in the order of all: float64 [n]."""
        found = torch.zeros(sum(map(len, self.places)), dtype=torch.float64)
        for places, part in zip(self.places, parts, strict=True):
            if part is not None:
                found[places] = torch.from_numpy(part)
        return found

    def _step(self, found: Step, name: Place) -> RayStep:
        self._alive[name] = step = RayStep(found.public, self, name)
        return step

    def _move(self, move: Move, requests: Sequence[StepRequest]) -> Callable[..., None]:
        self._moves.append(move)
        return self._send(requests)

    def _send(self, requests: Sequence[StepRequest]) -> Callable[..., None]:
        """Send all workers the new moves and the requests.

        Args:
            requests: What is asked for beside what was wanted before.

        Returns:
            Waits for the answers; takes a function that is called for each worker.
        """
        before, self.wanted = self.wanted, []
        dropped = tuple(self.dropped.popleft() for _ in range(len(self.dropped)))
        made = len(self._moves)

        def asks(worker: int, requests: Sequence[StepRequest]) -> list[Command]:
            return [ask for request in requests if (ask := request.ask(worker)) is not None]

        def write(worker: int, whole: bool) -> Commands:
            if self._readings[worker] is None:
                return ()
            late, new = asks(worker, before), asks(worker, requests)
            if not whole:
                return (*late, Drop(dropped), *self._news(worker, made), *new)
            # Only steps that somebody looks at, and these are, are kept.
            places = {place for request in (*before, *requests) for place in request.places}
            others = {rows for request in (*before, *requests) for rows in request.others}
            story = [act for rows in (self, *others) for act in rows.story(worker, places)]
            return (*story, *late, *new)

        sent = self._pool.send(write)

        def receive(advance: Callable[[int], None] = lambda _: None) -> None:
            answers = []
            for worker, found in enumerate(sent.each()):
                self._made[worker] = made
                own = iter(found)
                answers.append(
                    [self._answer(request, worker, own) for request in (*before, *requests)]
                )
                advance(1)
            for request, parts in zip(
                (*before, *requests), zip(*answers, strict=True), strict=True
            ):
                request.take(parts)

        return receive

    def _answer(
        self, request: StepRequest, worker: int, answers: Iterator[Answer]
    ) -> Answer | None:
        if self._readings[worker] is None or request.ask(worker) is None:
            return None
        return next(answers)

    def _news(self, worker: int, made: int) -> list[Command]:
        """Commands that a worker has not done yet."""
        known, reading = self._made[worker], self._readings[worker]
        acts: list[Command] = []
        if known == _UNREAD and reading is not None:
            acts.append(Begin(self._id, reading))
        moves = range(max(0, known), made)
        return [*acts, *(Do(self._id, number, self._moves[number]) for number in moves)]

    def story(self, worker: int, wanted: Collection[Place]) -> list[Command]:
        """All from the beginning; steps that nobody looks at any more are not kept."""
        reading = self._readings[worker]
        assert reading is not None
        places = {*wanted, *self._alive}
        acts: list[Command] = [End(self._id), Begin(self._id, reading)]
        for number, move in enumerate(self._moves):
            kept = frozenset(
                place.at for place in places if (place.rows, place.move) == (self._id, number)
            )
            new = number >= self._made[worker]
            acts.append(Do(self._id, number, move, None if new else kept))
        return acts
