"""What ``benchmarks.speed`` times: this library, and what a user would run in its place.

Each is given the same prompts: a public prefix, one document per row, a question. The public row
reads "(none)". None of the code of the others is here: their algorithms are written anew from
their descriptions and, for ``invink``, from reading what it computes per token.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers

from dpicl_rag import PromptTemplate
from dpicl_rag.answering.decoding import decode
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.key_value_cache import passed_to
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.mechanisms.privacy_filters import FixedFilter, PrivacyFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import Surplus

QUESTION = "What does the customer ask for, and until when?"
PASS_TOKENS = 2048  # of one forward pass while reading; larger ones are no faster on a CPU


@dataclass(frozen=True)
class Prompts:
    """Token ids of the rows: ``prefix + document + suffix``, the public row first."""

    prefix: list[int]
    documents: list[tuple[int, ...]]
    suffix: list[int]

    @property
    def rows(self) -> list[list[int]]:
        """Whole prompts."""
        return [[*self.prefix, *document, *self.suffix] for document in self.documents]


@dataclass
class Timing:
    """Seconds and bytes of one contender.

    Attributes:
        first_token: From the prompts to the first token.
        warm_first_token: The same with documents that were read before, where that is possible.
        per_token: Of each token after the first, the median.
        aggregation: Part of ``per_token`` that is not the model's, where it can be told apart.
        peak: Most memory of the process.
    """

    first_token: float
    per_token: float
    warm_first_token: float | None = None
    aggregation: float | None = None
    peak: int = 0


def prompts(model: TransformersModel, experts: int, length: int) -> Prompts:
    """Made-up letters of ``length`` tokens each, all different."""
    cut = PromptTemplate().cut(model.tokenizer, QUESTION)
    letters = []
    for i in range(experts):
        text = " ".join(
            f"Dear desk, order {i}-{j} came late on day {(i * 7 + j) % 28}; please send {j} more."
            for j in range(length // 12 + 2)
        )
        letters.append(model.digest([text], length))
    public = model.digest([cut.no_document], length)
    return Prompts(list(cut.prefix), [public, *letters], list(cut.suffix))


def private(loaded: TransformersModel, given: Prompts, tokens: int) -> Timing:
    """This library: one batch with shared prefix, surplus utility, cryptographic draws."""
    model = loaded.with_cache(PrefixCache(memory=16 << 30))
    mechanism = _Timed(Surplus(), strength=0.7)

    def answer() -> Iterator[int]:
        return decode(
            model.read(given.prefix, given.documents, room=len(given.suffix) + tokens),
            given.suffix,
            mechanism,
            FixedFilter(1e9, mechanism.rho),
            Randomness(),
            max_tokens=tokens,
            stop_tokens=frozenset(),
        )

    first, steps = _clock(answer)
    aggregation = mechanism.seconds / tokens
    warm, _ = _clock(answer, 1)
    return Timing(first, steps, warm, aggregation)


class _Timed(ExponentialMechanism):
    """A mechanism that notes how long its draws take."""

    seconds = 0.0

    def draw(self, step: Step, spend: PrivacyFilter, randomness: Randomness) -> int:
        began = time.perf_counter()
        token = super().draw(step, spend, randomness)
        _Timed.seconds += time.perf_counter() - began
        return token


def bare(loaded: TransformersModel, given: Prompts, tokens: int) -> Timing:
    """The model's own forward passes over the same rows and nothing else: the practical limit."""
    model = _stock(loaded)

    def answer() -> Iterator[int]:
        ids, mask = _padded(given.rows, model.device)
        cache = transformers.DynamicCache(config=model.config)
        size = max(1, PASS_TOKENS // ids.shape[1])
        parts, caches = [], []
        for first in range(0, len(ids), size):
            part = transformers.DynamicCache(config=model.config)
            some = slice(first, first + size)
            parts.append(_forward(model, ids[some], mask[some], part))
            caches.append(part)
        for layer in range(len(caches[0].layers)):
            keys = torch.cat([part.layers[layer].keys for part in caches])
            values = torch.cat([part.layers[layer].values for part in caches])
            cache.update(keys, values, layer)
            for part in caches:
                part.layers[layer].keys = part.layers[layer].values = None
        token = int(torch.cat(parts)[0].argmax())
        while True:
            yield token
            ones = mask.new_ones(len(mask), 1)
            mask = torch.cat([mask, ones], dim=1)
            step = ids.new_full((len(mask), 1), token)
            token = int(_forward(model, step, mask, cache)[0].argmax())

    return Timing(*_clock(answer, tokens))


def invink(loaded: TransformersModel, given: Prompts, tokens: int) -> Timing:
    """InvisibleInk 0.1.0 as its package computes it, at float32.

    One call of ``generate`` for each token, logits to NumPy in float64, the difference to the
    public row clipped, the mean, top-k+ candidates, softmax and draw in NumPy.
    """
    model = _stock(loaded)
    clip, top_k = 1.0, 100

    def answer() -> Iterator[int]:
        ids, mask = _padded(given.rows, model.device)
        cache = None
        rows = len(ids)
        while True:
            found = model.generate(
                ids,
                attention_mask=mask,
                **passed_to(model, cache),
                use_cache=True,
                max_new_tokens=1,
                do_sample=True,
                temperature=1.0,
                top_p=1.0,
                pad_token_id=0,
                output_logits=True,
                return_dict_in_generate=True,
            )
            cache = found.past_key_values
            logits = np.zeros((rows, found.logits[0].shape[1]))
            logits[:] = found.logits[0].cpu().numpy()
            public, experts = logits[0], logits[1:]
            mean = (public + np.clip(experts - public, -clip, clip)).mean(axis=0)
            kth = np.partition(public, -top_k)[-top_k]
            mean = np.where(public >= kth - 2 * clip / rows, mean, -np.inf)
            weights = np.exp(mean - mean.max())
            token = int(np.random.choice(len(mean), p=weights / weights.sum()))
            yield token
            ids = torch.cat([ids, ids.new_full((rows, 1), token)], dim=1)
            mask = torch.cat([mask, mask.new_ones(rows, 1)], dim=1)

    return Timing(*_clock(answer, tokens))


def sarus(loaded: TransformersModel, given: Prompts, tokens: int) -> Timing:
    """The design of Sarus DP-RAG: a logits processor inside one call of ``generate``."""
    model = _stock(loaded)
    times: list[float] = []

    class Aggregate(transformers.LogitsProcessor):  # type: ignore[misc]
        def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            log_probs = torch.log_softmax(scores, dim=-1)
            public, experts = log_probs[0], log_probs[1:]
            utility = torch.nan_to_num(experts - public, nan=0.0).clamp(-1.0, 1.0).sum(dim=0)
            token = torch.multinomial(torch.softmax(public + utility, dim=-1), 1)
            forced = torch.full_like(scores, -torch.inf)
            forced[:, token] = 0.0
            times.append(time.perf_counter())
            return forced

    ids, mask = _padded(given.rows, model.device)
    began = time.perf_counter()
    with torch.inference_mode():
        model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=True,
            top_k=0,
            pad_token_id=0,
            logits_processor=transformers.LogitsProcessorList([Aggregate()]),
        )
    return Timing(times[0] - began, _median(np.diff(times).tolist()))


def ordinary(loaded: TransformersModel, given: Prompts, tokens: int) -> Timing | None:
    """Ordinary RAG: all documents in one prompt through ``generate``; not private."""
    model = _stock(loaded)
    ids = given.prefix + [t for document in given.documents[1:] for t in document] + given.suffix
    if len(ids) + tokens > loaded.context_length:
        return None
    times: list[float] = []

    class Watch(transformers.LogitsProcessor):  # type: ignore[misc]
        def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            times.append(time.perf_counter())
            return scores

    began = time.perf_counter()
    with torch.inference_mode():
        model.generate(
            torch.tensor([ids], device=model.device),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long, device=model.device),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            pad_token_id=0,
            logits_processor=transformers.LogitsProcessorList([Watch()]),
        )
    return Timing(times[0] - began, _median(np.diff(times).tolist()))


CONTENDERS = {
    "private": private,
    "bare": bare,
    "invink": invink,
    "sarus": sarus,
    "ordinary": ordinary,
}


def large_model() -> TransformersModel:
    """The shape of an 8B model with random weights, on a GPU."""
    config = transformers.LlamaConfig(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
    )
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config)
    return TransformersModel(model, default_model().tokenizer._tokenizer)


def measure(
    name: str, experts: int, length: int, tokens: int, *, large: bool = False
) -> Timing | None:
    """Time one contender in this process, with the default model or one of the shape of 8B."""
    model = large_model() if large else default_model("float32")
    given = prompts(model, experts, length)
    gc.collect()
    with torch.inference_mode():
        # Threads started, weights in memory.
        model._model(torch.tensor([given.suffix], device=model._model.device))
    found = CONTENDERS[name](model, given, tokens)
    if found is not None:
        unit = 1 if sys.platform == "darwin" else 1024
        found.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        if large:
            found.peak = torch.cuda.max_memory_allocated()
    return found


def _clock(answer: Callable[[], Iterator[int]], tokens: int | None = None) -> tuple[float, float]:
    """Seconds to the first of ``tokens``, and the median of the others."""
    began = time.perf_counter()
    times = []
    for _ in answer():
        times.append(time.perf_counter())
        if len(times) == tokens:
            break
    return times[0] - began, _median(np.diff(times).tolist())


def _median(seconds: list[float]) -> float:
    return float(np.median(seconds)) if seconds else 0.0


def _stock(loaded: TransformersModel) -> Any:
    """The model as transformers loads it: between calls this library leaves no trace in it."""
    return loaded._model


def _padded(rows: list[list[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, width - len(row) :] = torch.tensor(row)
        mask[i, width - len(row) :] = 1
    return ids.to(device), mask.to(device)


@torch.inference_mode()
def _forward(model: Any, ids: torch.Tensor, mask: torch.Tensor, cache: Any) -> torch.Tensor:
    positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        **passed_to(model, cache),
        use_cache=True,
        logits_to_keep=1,
    )
    logits: torch.Tensor = output.logits[:, -1]
    return logits
