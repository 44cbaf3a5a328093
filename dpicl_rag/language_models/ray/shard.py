"""The experts of one worker: rows of one process, led by commands."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

from dpicl_rag.language_models.base import BlockRows, LanguageModel, Rows, SpeakingRows
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.hardware import processor
from dpicl_rag.language_models.ray.commands import (
    Answer,
    Append,
    AskContinuations,
    AskLogProbs,
    AskSum,
    Begin,
    Commands,
    Corrected,
    Do,
    Drop,
    End,
    Move,
    Place,
    Reading,
    Rewind,
    Score,
    StepName,
    Sum,
)
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.mechanisms.step import DenseStep, Step

_PROBE = (
    "The boat leaves at nine, and the tide is low until noon.",
    "Nobody had told the baker that the mill was sold.",
    "Rain.",
)


class BehindError(Exception):
    """Commands go on with rows or steps that are not here."""


class Shard:
    """Acts on commands; what is done twice is done once.

    Args:
        model: A language model of this process.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._ways: dict[tuple[float, bool], LanguageModel] = {}
        self._rows: dict[int, Rows] = {}
        self._made: dict[int, int] = {}
        self._steps: dict[Place, DenseStep] = {}

    def __repr__(self) -> str:
        return "Shard(<private>)"

    def act(self, commands: Commands) -> tuple[Answer, ...]:
        """Do what is commanded, in its order.

        Returns:
            What was asked for.

        Raises:
            BehindError: It goes on with what is not here.
        """
        answers: list[Answer] = []
        for act in commands:
            match act:
                case Begin(rows, reading):
                    if rows not in self._rows:
                        self._rows[rows], self._made[rows] = self._read(reading), 0
                case Do():
                    self._do(act)
                case Drop(places):
                    for place in places:
                        self._steps.pop(place, None)
                case End(rows):
                    self._end(rows)
                case AskSum(name, utility, strength, weights):
                    step = self._step(name)
                    own = None
                    if weights is not None:
                        own = torch.from_numpy(weights.copy()).to(step.public.device)
                    ranges, total = step.whole_sum(utility, strength, own)
                    answers.append(Sum.of(ranges.numpy(force=True), total.numpy(force=True)))
                case AskContinuations():
                    answers.append(self._continuations(act))
                case AskLogProbs(name, candidate):
                    answers.append(self._step(name).log_probs(candidate).numpy(force=True))
        return tuple(answers)

    def _read(self, reading: Reading) -> Rows:
        way = reading.bias, reading.public_copies
        if way not in self._ways:
            self._ways[way] = copying(self._model, way[0], public=way[1])
        return self._ways[way].read(reading.prefix, reading.inputs, room=reading.room)

    def _do(self, act: Do) -> None:
        made = self._made.get(act.rows, -1)
        if act.number < made:
            return
        if act.number > made:
            raise BehindError
        try:
            steps = self._move(self._rows[act.rows], act.move)
        except BaseException:
            self._end(act.rows)  # nobody knows how far they came
            raise
        self._made[act.rows] += 1
        for at, step in enumerate(steps):
            if act.keep is None or at in act.keep:
                assert isinstance(step, DenseStep)
                self._steps[Place(act.rows, act.number, at)] = step

    def _continuations(self, act: AskContinuations) -> tuple[Continuation, ...]:
        rows = self._rows.get(act.rows)
        if rows is None:
            raise BehindError
        assert isinstance(rows, SpeakingRows)
        try:
            return tuple(rows.continue_each(act.token_ids, act.most, act.asked))
        except BaseException:
            self._end(act.rows)  # nobody knows where they stand
            raise

    @staticmethod
    def _move(rows: Rows, move: Move) -> Sequence[Step]:
        match move:
            case Append(token_ids, keep) if keep > 1:
                assert isinstance(rows, BlockRows)
                return rows.extend_each(token_ids, keep)
            case Append(token_ids):
                return [rows.extend(token_ids)]
            case Rewind(tokens):
                assert isinstance(rows, BlockRows)
                rows.rewind(tokens)
                return []
            case Score(continuations):
                return [rows.score(continuations)]

    def _end(self, rows: int) -> None:
        self._rows.pop(rows, None)
        self._made.pop(rows, None)
        for place in [place for place in self._steps if place.rows == rows]:
            del self._steps[place]

    def _step(self, name: StepName) -> DenseStep:
        if isinstance(name, Corrected):
            return self._step(name.step).corrected(self._step(name.priors))
        if name not in self._steps:
            raise BehindError
        return self._steps[name]


def bits_of(model: LanguageModel) -> str:
    """A digest of the processor, of versions, and of a model's rows over fixed public texts.

    Where two processes have the same, they add in the same order: a row has the same bits in
    either. Threads show in the rows, as far as they matter.
    """
    encode = model.tokenizer.encode
    rows = model.read(
        encode("Note: "),
        [model.digest((text,), model.context_length // 2) for text in _PROBE],
        room=128,
    )
    found = hashlib.sha256(f"{model.fingerprint} {processor()}".encode())
    for token_ids in (encode("\nWhen does the boat leave? It leaves at")[:100], encode("n")):
        step = rows.extend(token_ids)
        assert isinstance(step, DenseStep)
        found.update(step.rows.double().numpy(force=True).tobytes())
    return found.hexdigest()
