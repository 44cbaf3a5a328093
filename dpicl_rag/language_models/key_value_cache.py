"""One preallocated key-value cache for a whole batch, written in slices of rows.

Keys carry their own position (rotary or learned), so the slot they stand in says nothing about it.
"""

from __future__ import annotations

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


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

    def __init__(self, rows: int, slots: int, layers: int) -> None:
        self.rows = rows
        self.slots = slots
        self.layers: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.depth = layers

    def allocate(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Make the tensors of ``layer`` if they are not there yet."""
        if layer < len(self.layers):
            return
        self.layers.append(
            (
                keys.new_zeros(self.rows, keys.shape[1], self.slots, keys.shape[3]),
                values.new_zeros(self.rows, values.shape[1], self.slots, values.shape[3]),
            )
        )

    def view(self, rows: slice, used: int) -> Cache:
        """A transformers cache over some rows whose first ``used`` slots are filled."""
        return Cache(layers=[_SlotLayer(self, i, rows, used) for i in range(self.depth)])

    def fan_out(self, head: KeyValueCache) -> None:
        """Copy a one-row cache to the first slots of every row."""
        for layer, (keys, values) in enumerate(head.layers):
            self.allocate(layer, keys, values)
            own_keys, own_values = self.layers[layer]
            own_keys[:, :, : head.slots] = keys
            own_values[:, :, : head.slots] = values

    def place(self, part: KeyValueCache, rows: list[int], *, shared: int, end: int) -> None:
        """Copy a smaller cache's rows here.

        Args:
            part: Its first ``shared`` slots go to the first slots, the others end at ``end``.
            rows: The rows here, in the order of the part's.
            shared: Number of slots that all rows begin with.
            end: Slot after the last one written.
        """
        index = torch.tensor(rows)
        begin = end - (part.slots - shared)
        for layer, (keys, values) in enumerate(part.layers):
            self.allocate(layer, keys, values)
            for own, new in zip(self.layers[layer], (keys, values), strict=True):
                own[index.to(own.device), :, :shared] = new[:, :, :shared]
                own[index.to(own.device), :, begin:end] = new[:, :, shared:]
