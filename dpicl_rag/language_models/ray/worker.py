"""The actor of a share of experts, whose methods return bytes and codes alone.

Ray copies the words of an error, and the way it took, to the driver's log. So no method raises.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, Rows, SpeakingRows
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.hardware import NotEnoughMemoryError, enough_memory, processor
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.language_models.openai_compatible.server_address import Address
from dpicl_rag.language_models.ray.worker_messages import (
    Answer,
    Ask,
    AskContinuations,
    AskLogProbs,
    AskSum,
    Code,
    Corrected,
    History,
    Move,
    Reading,
    Reply,
    StepName,
    StepPlace,
    Sum,
    WorkerRequest,
    message_of,
    number_of_parts,
    parts_of,
)
from dpicl_rag.mechanisms.step import DenseStep

_PROBE = (
    "The boat leaves at nine, and the tide is low until noon.",
    "Nobody had told the baker that the mill was sold.",
    "Rain.",
)

ModelSource = str | Path | Callable[[], Any] | None
"""Source of a process's model: an id or folder, a function, or the packaged default."""


def load(source: ModelSource) -> LanguageModel:
    """A language model of this process.

    Raises:
        ConfigurationError: The source is a loaded model, or a server.
        ModelError: It cannot be loaded.
    """
    if isinstance(source, str) and Address.meant(source):
        raise ConfigurationError("a server needs no workers: ask it from this process")
    if source is None or isinstance(source, (str, Path)):
        return load_language_model(source)
    if not callable(source):
        raise ConfigurationError(
            "every worker loads the model by itself: give a Hugging Face id, a folder, or a "
            "function that returns a model"
        )
    return load_language_model(source())


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


class Worker:
    """The methods that a driver calls; `worker_messages` has the protocol.

    Args:
        source: Where the model comes from, pickled: a function may be missing here.
        threads: Of torch; the order of additions may follow from it.
    """

    def __init__(self, source: bytes, threads: int) -> None:
        self._source = source
        self._threads = threads
        self._share: ModelShare | None = None
        self._bits = ""
        # By the rows that a message is about: their driver sends one at a time.
        self._held: dict[int, dict[int, bytes]] = {}
        self._replies: dict[int, list[bytes]] = {}

    def __repr__(self) -> str:
        return "Worker()"

    def hello(self) -> str:
        """Load the model.

        Returns:
            The digest of its bits; empty where it cannot be loaded.
        """
        try:
            if self._share is None:
                torch.set_num_threads(self._threads)
                model = load(pickle.loads(self._source))  # noqa: S301 - from the driver
                self._bits = bits_of(model)
                self._share = ModelShare(model)
        except BaseException:
            return ""
        return self._bits

    def hold(self, rows: int, at: int, part: bytes) -> None:
        """Take a later part of a request, whose first part comes with `run`."""
        self._held.setdefault(rows, {})[at] = part

    def run(self, rows: int, first: bytes) -> bytes:
        """Answer a request.

        Returns:
            The first part of the reply.
        """
        held = self._held.pop(rows, {})
        parts = [first, *(held.get(at, b"") for at in range(1, number_of_parts(first)))]
        self._replies[rows] = reply = self._reply(parts)
        return reply[0]

    def more(self, rows: int, at: int) -> bytes:
        """A later part of the last reply about rows; nothing where it is not there."""
        kept = self._replies.get(rows, [])
        return kept[at] if at < len(kept) else b""

    def _reply(self, parts: Sequence[bytes]) -> list[bytes]:
        """The parts of a reply to the parts of a request."""
        bits = self.hello()

        def reply(code: Code, answers: tuple[Answer, ...] = ()) -> list[bytes]:
            return parts_of(pickle.dumps(Reply(code, bits, answers)))

        if self._share is None:
            return reply("failed")
        try:
            with enough_memory():
                message = message_of(parts)
                if message is None:
                    return reply("lacks")
                request = pickle.loads(message)  # noqa: S301 - from the driver alone
                request.forget_ended(self._held, self._replies)
                return reply("done", self._share.answer(request))
        except UnknownRowsError:
            return reply("lacks")
        except NotEnoughMemoryError:
            return reply("memory")
        except BaseException:
            return reply("failed")


class Actor(Worker):
    """A worker in a process of its own, which says nothing in Ray's log files.

    What libraries print may quote or count what they read.
    """

    def __init__(self, source: bytes, threads: int) -> None:
        logging.disable(logging.CRITICAL)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        super().__init__(source, threads)


class UnknownRowsError(Exception):
    """A request goes on with rows that are not here, and does not say what they begin with."""


class ModelShare:
    """Rows of one process, brought to where a request has them."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._ways: dict[tuple[float, bool], LanguageModel] = {}
        self._rows: dict[int, _KeptRows] = {}

    def __repr__(self) -> str:
        return "ModelShare(<private>)"

    def answer(self, request: WorkerRequest) -> tuple[Answer, ...]:
        """Answers to all that is asked.

        Raises:
            UnknownRowsError: It goes on with what is not here.
        """
        request.forget_ended(self._rows)
        for history in request.histories:
            self._follow(history)
        return tuple(map(self._answer, request.asks))

    def _follow(self, history: History) -> None:
        """Bring rows to the end of their history."""
        kept = self._rows.pop(history.rows, None)
        if kept is None or not kept.leads_to(history):
            if history.reading is None:
                raise UnknownRowsError
            kept = _KeptRows(self._read(history.reading))
        kept.follow(history)  # where that fails, nobody knows how far they came
        self._rows[history.rows] = kept

    def _read(self, reading: Reading) -> Rows:
        way = reading.bias, reading.public_copies
        if way not in self._ways:
            self._ways[way] = copying(self._model, way[0], public=way[1])
        return self._ways[way].read(reading.prefix, reading.inputs, room=reading.room)

    def _answer(self, ask: Ask | None) -> Answer:
        match ask:
            case AskSum(name, utility, strength, weights):
                step = self._step(name)
                own = None
                if weights is not None:
                    own = torch.from_numpy(weights.copy()).to(step.public.device)
                ranges, total = step.whole_sum(utility, strength, own)
                return Sum.of(ranges.numpy(force=True), total.numpy(force=True))
            case AskLogProbs(name, candidate):
                return self._step(name).log_probs(candidate).numpy(force=True)
            case AskContinuations(number, token_ids, most, asked):
                kept = self._rows.pop(number)
                assert isinstance(kept.rows, SpeakingRows)
                found = tuple(kept.rows.continue_each(token_ids, most, asked))
                self._rows[number] = kept  # where that fails, nobody knows where they stand
                return found
            case None:
                return None

    def _step(self, name: StepName) -> DenseStep:
        if isinstance(name, Corrected):
            return self._step(name.step).corrected(self._step(name.priors))
        return self._rows[name.rows].steps[name]


class _KeptRows:
    """Rows, the moves that they have made, and steps that may be asked about."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.moves: tuple[Move, ...] = ()
        self.steps: dict[StepPlace, DenseStep] = {}

    def leads_to(self, history: History) -> bool:
        """Whether moves that follow bring them to where a history ends, with all its steps."""
        made = len(self.moves)
        return self.moves == history.moves[:made] and all(
            place in self.steps for place in history.kept if place.move < made
        )

    def follow(self, history: History) -> None:
        """Make the moves that are not made; keep those steps alone that are named."""
        for number, move in enumerate(history.moves[len(self.moves) :], start=len(self.moves)):
            for at, step in enumerate(move.on(self.rows)):
                assert isinstance(step, DenseStep)
                if StepPlace(history.rows, number, at) in history.kept:
                    self.steps[StepPlace(history.rows, number, at)] = step
        self.moves = history.moves
        self.steps = {place: step for place, step in self.steps.items() if place in history.kept}
