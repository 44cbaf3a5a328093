"""Keys and values of rows that take the same number of slots.

Keys carry their own position (rotary or learned), so the slot they stand in says nothing about it.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers.cache_utils import Cache

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Per layer keys and values of one sequence, each [heads, tokens, head size]."""

_STEP = 32  # slots that are added at a time: kernels are made once for each shape


def passed_to(model: torch.nn.Module, cache: Cache | None) -> dict[str, Any]:
    """A cache as an argument of a model: transformers has renamed it in version 5.24."""
    # Of the class, where it has one: what stands around a model hides its parameters.
    forward = getattr(type(model), "forward", model.forward)
    named = inspect.signature(forward).parameters
    return {"cache" if "cache" in named else "past_key_values": cache}


class KeyValueCache:
    """Keys and values of ``rows`` sequences of at most ``slots`` tokens.

    Tensors grow as tokens are appended, so that a step attends to whole ones: a product with a
    part of them would copy it first.

    Args:
        rows: How many sequences.
        width: Slots of what they have read.
        room: Slots of what will be appended.

    Attributes:
        layers: Per layer a pair of tensors [rows, heads, slots in use, head size], made on first
            use in the dtype and on the device of the model.
    """

    def __init__(self, rows: int, width: int, room: int) -> None:
        self.rows = rows
        self.room = room
        self.slots = width + room
        self.layers: Layers = []

    def only(self, rows: Sequence[int]) -> KeyValueCache:
        """A copy of some of the sequences."""
        other = KeyValueCache(len(rows), self.slots - self.room, self.room)
        own = list(rows)
        other.layers = [(keys[own], values[own]) for keys, values in self.layers]
        return other

    def in_use(self, slots: int) -> int:
        """The slots in use when the first ``slots`` are: a multiple, or all there will be."""
        return min(-(-slots // _STEP) * _STEP, self.slots)

    def place(
        self, rows: slice, slots: slice, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Write keys and values [rows, heads, slots, head size] of one layer."""
        if layer == len(self.layers):
            # Zeros, not empty: a masked slot has weight zero, and zero times NaN is NaN.
            # With room for the first tokens that will be appended.
            size = self.in_use(self.slots - self.room + _STEP)
            self.layers.append((self._empty(keys, size), self._empty(values, size)))
        own_keys, own_values = self.layers[layer]
        if slots.stop > own_keys.shape[2]:
            own_keys, own_values = (
                self._grown(own, self.in_use(slots.stop)) for own in (own_keys, own_values)
            )
            self.layers[layer] = own_keys, own_values
        own_keys[rows, :, slots] = keys
        own_values[rows, :, slots] = values

    def _empty(self, like: torch.Tensor, slots: int) -> torch.Tensor:
        return like.new_zeros(self.rows, like.shape[-3], slots, like.shape[-1])

    def _grown(self, own: torch.Tensor, slots: int) -> torch.Tensor:
        found = self._empty(own, slots)
        found[:, :, : own.shape[2]] = own
        return found
