"""Tokens a second of many rows: this library's engine, bare forward passes, and ``generate``.

All three read the same prompts, go on by their likeliest tokens, and are timed by the same clock.
Rows are of one length, so that the other two need no mask and are as fast as they can be.
"""

from __future__ import annotations

import contextlib
import gc
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from dpicl_rag.language_models import probe
from dpicl_rag.language_models.key_value_cache import passed_to
from dpicl_rag.language_models.packed_rows import PackedRows
from dpicl_rag.language_models.separate_rows import SeparateRows
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.mechanisms.step import DenseStep

Figures = dict[str, Any]
PREFIX, QUESTION = 60, 30
_WARM_UP = 2  # tokens; kernels are loaded when they are first used


class OutOfTimeError(Exception):
    """The limit was reached."""


@dataclass(frozen=True)
class Prompts:
    """Random tokens: ``prefix + document + question`` for every row, the public row first."""

    prefix: tuple[int, ...]
    documents: tuple[tuple[int, ...], ...]
    question: tuple[int, ...]

    @classmethod
    def made_up(cls, vocabulary: int, experts: int, length: int) -> Prompts:
        """Documents of ``length`` tokens each, all different."""
        coins = random.Random(0)

        def tokens(count: int) -> tuple[int, ...]:
            return tuple(coins.randrange(vocabulary) for _ in range(count))

        documents = tuple(tokens(length) for _ in range(1 + experts))
        return cls(tokens(PREFIX), documents, tokens(QUESTION))

    def on(self, device: torch.device) -> torch.Tensor:
        """Whole prompts, int64 [rows, tokens]."""
        rows = [[*self.prefix, *document, *self.question] for document in self.documents]
        return torch.tensor(rows, device=device)


class Clock:
    """The times at which tokens are there.

    Args:
        device: Is waited for.
        deadline: Of `time.monotonic`.

    Raises:
        OutOfTimeError: From a call that comes after the deadline.
    """

    def __init__(self, device: torch.device, deadline: float) -> None:
        self._device = device
        self._deadline = deadline
        self.times: list[float] = []
        self()

    def __call__(self) -> None:
        """A token is there."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self.times.append(time.monotonic())
        if self.times[-1] > self._deadline:
            raise OutOfTimeError


Contender = Callable[[TransformersModel, Prompts, int, Callable[[], None]], list[int]]
"""Calls the clock after each of some tokens; returns what the public row says."""


def engine(
    model: TransformersModel, given: Prompts, tokens: int, clock: Callable[[], None]
) -> list[int]:
    """This library's rows: log-probabilities of all of them for every token, nothing drawn."""
    rows = model.read(given.prefix, given.documents, room=QUESTION + tokens)
    new, said = given.question, list[int]()
    for _ in range(tokens):
        step = rows.extend(new)
        assert isinstance(step, DenseStep)
        new = (int(step.public.argmax()),)
        said += new
        clock()
    return said


@torch.inference_mode()
def bare(
    model: TransformersModel, given: Prompts, tokens: int, clock: Callable[[], None]
) -> list[int]:
    """The model's own forward passes over one batch and its keys and values, nothing else."""
    inner, said = model._model, list[int]()
    ids, cache = given.on(inner.device), transformers.DynamicCache(config=inner.config)
    for _ in range(tokens):
        found = inner(input_ids=ids, **passed_to(inner, cache), use_cache=True, logits_to_keep=1)
        ids = found.logits[:, -1].argmax(dim=-1, keepdim=True)
        said.append(int(ids[0]))
        clock()
    return said


def generate(
    model: TransformersModel, given: Prompts, tokens: int, clock: Callable[[], None]
) -> list[int]:
    """``generate`` of transformers over the same batch."""

    class Watch(transformers.LogitsProcessor):  # type: ignore[misc]
        def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            clock()
            return scores

    ids = given.on(model._model.device)
    found = model._model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=tokens,
        do_sample=False,
        pad_token_id=0,
        logits_processor=transformers.LogitsProcessorList([Watch()]),
    )
    said: list[int] = found[0, ids.shape[1] :].tolist()
    return said


CONTENDERS: dict[str, Contender] = {"engine": engine, "bare": bare, "generate": generate}


def rate(
    contender: Contender, model: TransformersModel, given: Prompts, tokens: int, deadline: float
) -> Figures:
    """Seconds to the first token, tokens a second after it (the median), and peak memory.

    Raises:
        OutOfTimeError: Before there were two tokens.
    """
    device = model._model.device
    contender(model, given, min(_WARM_UP, tokens), Clock(device, deadline))
    forget_peak(device)
    clock = Clock(device, deadline)
    with contextlib.suppress(OutOfTimeError):
        contender(model, given, tokens, clock)
    gaps = [after - before for before, after in zip(clock.times, clock.times[1:], strict=False)]
    if len(gaps) < 2:
        raise OutOfTimeError
    return {
        "first_token_s": gaps[0],
        "tokens_per_s": 1 / statistics.median(gaps[1:]),
        "tokens": len(gaps),
        "peak_gb": peak(device),
    }


def reading(model: TransformersModel, given: Prompts, deadline: float) -> Figures:
    """Seconds in which the engine reads all documents, the second time; none of them is kept.

    Raises:
        OutOfTimeError: Before they were read twice.
    """
    device = model._model.device
    forget_peak(device)
    clock = Clock(device, deadline)
    for _ in range(2):
        model.read(given.prefix, given.documents, room=1)
        clock()
    return {"seconds": clock.times[2] - clock.times[1], "peak_gb": peak(device)}


def probed(model: TransformersModel) -> Figures:
    """What the probe says of a model here; with the error, if one is why its rows share no pass."""
    errors = []

    def attempt(*given: Any) -> bool:
        try:
            return probe.rows_are_their_own(*given)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
            raise

    began = time.monotonic()
    if model._holds(PackedRows, attempt, "rows share passes"):
        verdict = "rows share passes and are bit-identical to themselves"
    elif model._holds(SeparateRows, probe.rows_are_right, "rows are read alone"):
        verdict = "rows are not bit-identical in company and are read one at a time"
    else:
        verdict = "rows are wrong"
    return {"verdict": verdict, "seconds": time.monotonic() - began, "errors": errors}


def forget_peak(device: torch.device) -> None:
    """Begin to measure memory anew; on a CPU the peak is that of the process so far."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak(device: torch.device) -> float:
    """Most memory in use, weights included, in GB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
