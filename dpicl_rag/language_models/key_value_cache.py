"""Preallocated keys and values of rows that take the same number of slots.

Keys carry their own position (rotary or learned), so the slot they stand in says nothing about it.
"""

from __future__ import annotations

import torch

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Per layer keys and values of one sequence, each [heads, tokens, head size]."""


class KeyValueCache:
    """Keys and values of ``rows`` sequences of at most ``slots`` tokens.

    Args:
        rows: How many sequences.
        width: Slots of what they have read.
        room: Slots of what will be appended.

    Attributes:
        layers: Per layer a pair of tensors [rows, heads, slots, head size], made on first use in
            the dtype and on the device of the model.
    """

    def __init__(self, rows: int, width: int, room: int) -> None:
        self.rows = rows
        self.room = room
        self.slots = width + room
        self.layers: Layers = []

    def place(
        self, rows: slice, slots: slice, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Write keys and values [rows, heads, slots, head size] of one layer."""
        if layer == len(self.layers):
            # Zeros, not empty: a masked slot has weight zero, and zero times NaN is NaN.
            self.layers.append((self._empty(keys), self._empty(values)))
        own_keys, own_values = self.layers[layer]
        own_keys[rows, :, slots] = keys
        own_values[rows, :, slots] = values

    def _empty(self, like: torch.Tensor) -> torch.Tensor:
        return like.new_zeros(self.rows, like.shape[-3], self.slots, like.shape[-1])
