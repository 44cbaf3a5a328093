"""One preallocated key-value cache for a whole batch, written in slices of rows.

Keys carry their own position (rotary or learned), so the slot they stand in says nothing about it.
"""

from __future__ import annotations

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Per layer keys and values of one sequence, each [heads, tokens, head size]."""


class _SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values of some rows: writes in place, reads a view."""

    is_sliding = False

    def __init__(self, parent: KeyValueCache, layer: int, rows: slice, used: int) -> None:
        super().__init__()
        self._parent = parent
        self._layer = layer
        self._rows = rows
        self._used = used
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self._parent.allocate(self._layer, key_states, value_states)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.lazy_initialization(key_states, value_states)
        keys, values = self._parent.layers[self._layer]
        end = self._used + key_states.shape[-2]
        keys[self._rows, :, self._used : end] = key_states
        values[self._rows, :, self._used : end] = value_states
        self._used = end
        return keys[self._rows, :, :end], values[self._rows, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._used + query_length, 0

    def get_seq_length(self) -> int:
        return self._used

    def get_max_length(self) -> int:
        return self._parent.slots


class KeyValueCache:
    """Keys and values of ``rows`` sequences of at most ``slots`` tokens.

    Attributes:
        layers: Per layer a pair of tensors [rows, heads, slots, head size], made on first use in
            the dtype and on the device of the model.
    """

    def __init__(self, rows: int, slots: int, depth: int) -> None:
        self.rows = rows
        self.slots = slots
        self.layers: Layers = []
        self.depth = depth

    def allocate(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Make the tensors of ``layer`` if they are not there yet; the last three sizes count."""
        if layer < len(self.layers):
            return
        # Zeros, not empty: a masked slot has weight zero, and zero times NaN is NaN.
        self.layers.append(
            (
                keys.new_zeros(self.rows, keys.shape[-3], self.slots, keys.shape[-1]),
                values.new_zeros(self.rows, values.shape[-3], self.slots, values.shape[-1]),
            )
        )

    def view(self, rows: slice, used: int) -> Cache:
        """A transformers cache over some rows whose first ``used`` slots are filled."""
        return Cache(layers=[_SlotLayer(self, i, rows, used) for i in range(self.depth)])

    def take(self, row: int, slots: slice) -> Layers:
        """A view of one row's keys and values."""
        return [(keys[row, :, slots], values[row, :, slots]) for keys, values in self.layers]

    def place(self, row: int, slots: slice, layers: Layers) -> None:
        """Write one row's keys and values."""
        for i, (keys, values) in enumerate(layers):
            self.allocate(i, keys, values)
            own_keys, own_values = self.layers[i]
            own_keys[row, :, slots] = keys
            own_values[row, :, slots] = values
