"""A language model whose experts are spread over Ray workers."""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Sequence
from itertools import pairwise
from typing import Self

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Input, Progress, speaks
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.ray.ray_rows import RayRows
from dpicl_rag.language_models.ray.worker import ModelSource, bits_of, load
from dpicl_rag.language_models.ray.worker_messages import Reading
from dpicl_rag.language_models.ray.worker_pool import WorkerPool, connect


class RayModel:
    """Any language model, with the experts of an answer shared out to Ray workers.

    An answer is the same, bit for bit, as with the model alone, whatever the number of workers.
    This process computes the public row, keeps the ledger, and draws. Workers read documents; what
    comes back is one sum over a worker's experts and a number or two for each of them.

    A worker that dies is replaced and reads its documents again. If that takes too long, the
    answer ends (``EngineUnavailableError``).

    Args:
        model: A Hugging Face id, a folder, a function that returns a model, or None for the
            packaged default. Every worker, and this process, loads it by itself.
        workers: How many.
        threads: Threads of torch in each worker; by default as many as in this process. Ray is
            asked for as many CPUs.
        gpus: GPUs of each worker, as Ray counts them; a part of one is fine.
        patience: Seconds that one call may take, with all its repeats. Public, and the same for
            all answers.
        address: Of a Ray cluster that runs. None takes the connection that is there, the
            environment variable ``RAY_ADDRESS``, or starts Ray in this machine.

    Raises:
        ConfigurationError: The cluster cannot be reached, is too small or has no token, or the
            model is a loaded one.
        EngineUnavailableError: Workers did not start in time.
        MissingDependencyError: Ray is not installed.
        ModelError: The model cannot be loaded, or a worker computes other bits than this process.
    """

    def __init__(
        self,
        model: ModelSource = None,
        workers: int = 2,
        *,
        threads: int | None = None,
        gpus: float = 0.0,
        patience: float = 600.0,
        address: str | None = None,
    ) -> None:
        import torch

        if workers < 1 or (threads is not None and threads < 1):
            raise ConfigurationError("workers and threads must be at least 1")
        threads = threads or torch.get_num_threads()
        _validate.finite("gpus", gpus)
        connect(address, workers * threads)
        self._pool = WorkerPool(
            model,
            workers,
            threads=threads,
            gpus=gpus,
            patience=_validate.positive("patience", patience),
        )
        try:
            self._model = load(model)
            self._pool.meet(bits_of(self._model))
        except BaseException:
            self._pool.dismiss()
            raise
        self.tokenizer = self._model.tokenizer
        self.fingerprint = self._model.fingerprint
        self.context_length = self._model.context_length
        self._way = 0.0, False

    def __repr__(self) -> str:
        return f"RayModel(workers={self._pool.size})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def speaks(self) -> bool:
        """Whether its rows can go on each by itself, see ``Speaking``."""
        return speaks(self._model)

    def close(self) -> None:
        """End the workers, and all that they have read."""
        self._pool.dismiss()

    def copying(self, bias: float, *, public: bool = False) -> RayModel:
        """The same workers with that preference; see ``Copying``."""
        other = copy.copy(self)
        other._model = copying(self._model, bias, public=public)
        other._way = bias, public
        return other

    def digest(self, passages: Sequence[str], most: int) -> Input:
        """As the model does."""
        return self._model.digest(passages, most)

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> RayRows:
        """Have workers read a share of the inputs each; see ``LanguageModel.read``."""
        public, *experts = inputs
        places = shares(experts, self._pool.size)
        readings = [
            Reading(tuple(prefix), (public, *(experts[at] for at in own)), room, *self._way)
            if own
            else None
            for own in places
        ]
        return RayRows(
            self._pool,
            lambda: self._model.read(prefix, [public], room=room),
            readings,
            places,
            on_progress,
        )


def shares(inputs: Sequence[Input], workers: int) -> list[list[int]]:
    """Inputs of each worker: equal numbers, in the order of their hashes.

    So a document mostly meets the worker that has read it for an earlier question.
    """
    order = sorted(
        range(len(inputs)), key=lambda at: hashlib.sha256(pickle.dumps(inputs[at])).digest()
    )
    cuts = [worker * len(inputs) // workers for worker in range(workers + 1)]
    return [sorted(order[first:last]) for first, last in pairwise(cuts)]
