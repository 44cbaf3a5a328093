"""Rows of a model whose rows cannot share a pass: one at a time, which nothing can move."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.attention import own_attention
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.key_value_cache import KeyValueCache, passed_to
from dpicl_rag.language_models.transformers_rows import (
    CachedStates,
    NewTokens,
    Tokens,
    normalised,
    width_of,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class SeparateRows:
    """Each row ``prefix | input | appended tokens`` in passes and a cache of its own; see `Batch`.

    It is made as `PackedRows` are.

    Raises:
        ModelError: There is not enough memory.
    """

    version = "alone 2"

    def __init__(
        self,
        model: PreTrainedModel,
        depth: int,
        prefix: Tokens,
        inputs: Sequence[Tokens],
        room: int,
        cached: CachedStates,
        advance: Callable[[int], None],
    ) -> None:
        self._model = model
        self._depth = depth
        self._room = room
        self._used = 0
        lengths = [len(prefix) + len(own) for own in inputs]
        self._rows = [(length, KeyValueCache(1, length, room)) for length in lengths]
        with enough_memory(), torch.inference_mode():
            for own, (length, cache) in zip(inputs, self._rows, strict=True):
                layers = cached.fetch(own, model.device)
                if layers is None:
                    self._run(cache, 0, [*prefix, *own], keep=1)
                    found = [(k[0, :, :length], v[0, :, :length]) for k, v in cache.layers]
                    cached.keep(own, found)
                else:
                    for i, (keys, values) in enumerate(layers):
                        cache.place(slice(None), slice(0, length), i, keys[None], values[None])
                advance(len(own))

    def move(self, tokens: int) -> None:
        """Count appended tokens, as `Batch.move` says."""
        self._used += tokens

    def only(self, rows: Sequence[int]) -> SeparateRows:
        """Some of the rows, as `Batch.only` says; later tokens are written over those here."""
        other = copy.copy(self)
        other._rows = [self._rows[row] for row in rows]
        return other

    def forward(self, token_ids: NewTokens, keep: int) -> torch.Tensor:
        """Log-probabilities after new tokens, as `Batch.forward` says."""
        if self._used + width_of(token_ids) > self._room:
            raise ContextLengthError("more tokens were appended than room was made for")
        found: torch.Tensor | None = None
        for row, (length, cache) in enumerate(self._rows):
            own = token_ids[row].tolist() if isinstance(token_ids, torch.Tensor) else token_ids
            logits = self._run(cache, length + self._used, own, keep)
            if found is None:
                found = logits.new_empty(len(self._rows), *logits.shape[1:], dtype=torch.float32)
            found[row] = normalised(logits.float())[0]
        assert found is not None
        return found

    def _run(self, cache: KeyValueCache, used: int, token_ids: Tokens, keep: int) -> torch.Tensor:
        """Logits after the last ``keep`` tokens [1, keep, vocabulary]."""
        device, width = self._model.device, len(token_ids)
        layers = [_SlotLayer(cache, index, used) for index in range(self._depth)]
        with own_attention(self._model), torch.autocast(device.type, enabled=False):
            logits: torch.Tensor = self._model(
                input_ids=torch.tensor([list(token_ids)], device=device),
                attention_mask=torch.ones(1, used + width, dtype=torch.long, device=device),
                position_ids=torch.arange(used, used + width, device=device)[None],
                **passed_to(self._model, Cache(layers=layers)),
                use_cache=True,
                logits_to_keep=keep,
            ).logits
        return logits


class _SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values: writes in place, reads a view."""

    is_sliding = False

    def __init__(self, parent: KeyValueCache, layer: int, used: int) -> None:
        super().__init__()
        self._parent = parent
        self._layer = layer
        self._used = used
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing: the cache allocates."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        end = self._used + key_states.shape[-2]
        slots = slice(self._used, end)
        self._parent.place(slice(None), slots, self._layer, key_states, value_states)
        self._used = end
        keys, values = self._parent.layers[self._layer]
        return keys[:, :, :end], values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._used + query_length, 0

    def get_seq_length(self) -> int:
        return self._used

    def get_max_length(self) -> int:
        return self._parent.slots
