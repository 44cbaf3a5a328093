"""Attention row by row inside a pass of many rows, over a public prefix that is kept once.

A prompt's public part is the same in every row. Repeating its keys and values would cost memory
and time in each row; here all rows read one copy (Juravsky et al. 2024, "Hydragen"). The result is
ordinary attention over ``shared | own``: one softmax over both parts.

No shape here follows from another row: documents are attended one by one at their own length, and
appended tokens in groups of rows of equal public width. The products with the shared keys take the
rows of all groups in tiles of a public size. Products of a group take at least a public number of
rows: fewer matrices than threads are shared out among these in another way.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from dpicl_rag._context_variables import held, holding
from dpicl_rag.language_models.attention_products import (
    fewest_rows,
    filled,
    fold,
    in_tiles,
    one_document,
    weights_of,
)
from dpicl_rag.language_models.key_value_cache import KeyValueCache, Layers
from dpicl_rag.language_models.tiles import NotInvariantError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IMPLEMENTATION = "dpicl_rag_rows"
"""Name under which transformers finds the attention below."""

# Rows of a product with shared keys, of single tokens and of several.
_TILE, _WIDE_TILE = 64, 512

_current: ContextVar[Pass | None] = ContextVar("pass")


class Pattern:
    """Positions that a query may look at: the earlier ones, a sliding window, a chunk, all.

    The model's own. It stands where other attention has a mask, which would name slots of a batch.
    """

    def __init__(self, mask_function: Callable[..., Any]) -> None:
        self._mask_function = mask_function

    def allows(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Permissions of each query to look at each key.

        Args:
            queries: Positions [rows, width].
            keys: Positions [rows, slots] or [1, slots].

        Returns:
            [rows, 1, width, slots].
        """
        first = torch.zeros((), dtype=torch.long, device=queries.device)
        queries, keys = queries[:, None, :, None], keys[:, None, None, :]
        found = torch.as_tensor(self._mask_function(first, first, queries, keys))
        return found.expand(len(queries), 1, queries.shape[2], keys.shape[3])


class Attended(NamedTuple):
    """The attention of one layer.

    Attributes:
        module: The layer.
        query: [rows, query heads, width, head size].
        key: Keys of the new tokens [rows, heads, width, head size].
        value: Their values, the same shape.
        pattern: Which of them a query may look at.
        options: Scale, soft cap and sinks.
    """

    module: torch.nn.Module
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    pattern: Pattern
    options: dict[str, Any]


class Pass(ABC):
    """One forward pass of a model; its attention layers find it by themselves.

    Args:
        shared: Keys and values that every row begins with, or none.

    Attributes:
        attended: How many attention layers took part.
    """

    def __init__(self, shared: Layers) -> None:
        self._shared = shared
        self._masks: dict[tuple[Pattern, int], torch.Tensor | None] = {}
        self.attended = 0

    @property
    def before(self) -> int:
        """Number of shared tokens."""
        return self._shared[0][0].shape[1] if self._shared else 0

    def running(self) -> AbstractContextManager[None]:
        """Every attention layer that is called inside belongs to this pass."""
        return holding(_current, self)

    def shared(self, module: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        """A layer's shared keys and values [heads, shared tokens, head size]."""
        return self._shared[int(module.layer_idx)] if self._shared else _NOTHING  # type: ignore[arg-type]

    @abstractmethod
    def store(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Keep the keys and values of the pass's tokens [rows, heads, width, head size]."""

    @abstractmethod
    def attend(self, asked: Attended) -> torch.Tensor:
        """Attention of one layer [rows, width, query heads, head size]."""


_NOTHING = (torch.empty(0), torch.empty(0))


class DocumentPass(Pass):
    """Documents one behind the other, each after the shared prefix: ``[1, all their tokens]``.

    Attributes:
        lengths: Of the documents, in tokens.
        layers: Per layer keys and values of all tokens, each [heads, tokens, head size].
        positions: Of all tokens [1, tokens].
    """

    def __init__(self, shared: Layers, lengths: Sequence[int], device: torch.device) -> None:
        super().__init__(shared)
        self.lengths = lengths
        self.layers: Layers = []
        self.positions = torch.cat(
            [torch.arange(length, device=device) + self.before for length in lengths]
        )[None]

    def store(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Keep keys and values, as `Pass.store` says."""
        assert layer == len(self.layers)
        self.layers.append((keys[0], values[0]))

    def attend(self, asked: Attended) -> torch.Tensor:
        """Attention of one layer, as `Pass.attend` has it."""
        module, query, key, value, pattern, options = asked
        shared_key, shared_value = self.shared(module)
        found = query.new_empty(1, query.shape[2], query.shape[1], value.shape[-1])
        first = 0
        for length in self.lengths:
            own = slice(first, first + length)
            keys, values = key[:, :, own], value[:, :, own]
            if self.before:
                keys = torch.cat([shared_key[None], keys], dim=2)
                values = torch.cat([shared_value[None], values], dim=2)
            mask = self._mask(pattern, length, query.device)
            found[:, own] = one_document(module, query[:, :, own], keys, values, mask, options)
            first += length
        return found

    def _mask(self, pattern: Pattern, length: int, device: torch.device) -> torch.Tensor | None:
        if (pattern, length) not in self._masks:
            positions = torch.arange(self.before + length, device=device)[None]
            mask = pattern.allows(positions[:, self.before :], positions)
            # Without a mask attention is faster.
            self._masks[pattern, length] = None if bool(mask.all()) else mask
        return self._masks[pattern, length]


@dataclass(frozen=True, slots=True)
class SlotGroup:
    """Rows of a pass whose own keys take the same number of slots.

    Attributes:
        rows: Their places in the pass.
        cache: Where their own keys and values are.
        places: Their places in the cache.
        starts: First slot of each row's own tokens [rows].
    """

    rows: slice
    cache: KeyValueCache
    places: slice
    starts: torch.Tensor


class Stepping(Pass):
    """The same new tokens in every row ``[rows, width]``, after what the rows hold."""

    def __init__(self, shared: Layers, parts: Sequence[SlotGroup], used: int, width: int) -> None:
        super().__init__(shared)
        self._parts = parts
        self._used = used
        self._width = width

    def store(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Keep keys and values, as `Pass.store` says."""
        for part in self._parts:
            slots = self._slots(part)
            part.cache.place(
                part.places,
                slice(slots - self._width, slots),
                layer,
                keys[part.rows],
                values[part.rows],
            )

    def attend(self, asked: Attended) -> torch.Tensor:
        """Attention of one layer, as `Pass.attend` has it."""
        module, query, key, value, pattern, options = asked
        shared_key, shared_value = self.shared(module)
        rows, heads, width, _ = query.shape
        folded = fold(query, key.shape[1], options)
        found = folded.new_empty(*folded.shape[:-1], value.shape[-1])
        before = self.before
        on_shared = folded.new_empty(*folded.shape[:-1], before)
        if before:
            tile = _TILE if width == 1 else _WIDE_TILE
            on_shared = in_tiles(folded, shared_key.transpose(1, 2), tile)
        for part in self._parts:
            keys, values = part.cache.layers[int(module.layer_idx)]  # type: ignore[arg-type]
            slots = slice(0, self._attended_slots(part))
            keys, values = keys[part.places, :, slots], values[part.places, :, slots]
            fill = partial(filled, fewest_rows(folded, keys, values))
            own = fill(folded[part.rows]) @ fill(keys).transpose(2, 3)
            scores = torch.cat([fill(on_shared[part.rows]), own], dim=-1)
            weights = weights_of(scores, fill(self._mask(pattern, part)), options)
            count = len(keys)
            found[part.rows] = (weights[..., before:] @ fill(values))[:count]
            on_shared[part.rows] = weights[:count, ..., :before]
        if before:
            found += in_tiles(on_shared, shared_value, tile)
        return found.view(rows, heads, width, -1).transpose(1, 2).contiguous()

    def _slots(self, part: SlotGroup) -> int:
        """Slots of the own part, the new tokens included."""
        return part.cache.slots - part.cache.room + self._used + self._width

    def _attended_slots(self, part: SlotGroup) -> int:
        """The same and some more, which hold nothing yet and lie behind every query."""
        return part.cache.in_use(self._slots(part))

    def _mask(self, pattern: Pattern, part: SlotGroup) -> torch.Tensor:
        """[rows of the part, 1, width, shared and own slots]."""
        key = (pattern, part.rows.start)
        found = self._masks.get(key)
        if found is None:
            device = part.starts.device
            slots = torch.arange(self._attended_slots(part), device=device)
            # Positions skip the slots in front of a short row.
            own = self.before + slots - part.starts[:, None]
            shared = torch.arange(self.before, device=device)[None]
            queries = own[:, self._slots(part) - self._width : self._slots(part)]
            found = self._masks[key] = torch.cat(
                [
                    pattern.allows(queries, shared),
                    pattern.allows(queries, own) & (own >= self.before)[:, None, None],
                ],
                dim=-1,
            )
        return found


class Joint(Pass):
    """Rows of several answers, one answer behind the other, in one pass.

    Each answer's rows are attended as in a pass of its own: what the answers share is the rest of
    the model, whose weights are read once.

    Args:
        answers: Passes by themselves, and their places in this one.
    """

    def __init__(self, answers: Sequence[tuple[slice, Stepping]]) -> None:
        super().__init__([])
        self._answers = answers

    def store(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Keep keys and values, as `Pass.store` says."""
        for rows, answer in self._answers:
            answer.store(layer, keys[rows], values[rows])

    def attend(self, asked: Attended) -> torch.Tensor:
        """Attention of one layer, as `Pass.attend` has it."""
        found = [
            answer.attend(
                asked._replace(
                    query=asked.query[rows], key=asked.key[rows], value=asked.value[rows]
                )
            )
            for rows, answer in self._answers
        ]
        return torch.cat(found)


_free: WeakKeyDictionary[PreTrainedModel, threading.Condition] = WeakKeyDictionary()
_users: WeakKeyDictionary[PreTrainedModel, tuple[int, str, str | None]] = WeakKeyDictionary()


@contextmanager
def row_attention(model: PreTrainedModel) -> Iterator[None]:
    """Give a model this attention for as long as something runs inside, in whatever thread.

    Experts of a mixture go through plain products, one expert after the other: products of all of
    them at once have shapes of their own.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    config = model.config
    free = _free.setdefault(model, threading.Condition())
    with free:
        AttentionMaskInterface.register(IMPLEMENTATION, _mask)
        AttentionInterface.register(IMPLEMENTATION, attention)
        own = 0, config._attn_implementation, config._experts_implementation
        count, attention_before, experts_before = _users.get(model, own)
        _users[model] = count + 1, attention_before, experts_before
        config._attn_implementation, config._experts_implementation = IMPLEMENTATION, "eager"
    try:
        yield
    finally:
        with free:
            count, attention_before, experts_before = _users.pop(model)
            if count > 1:
                _users[model] = count - 1, attention_before, experts_before
            else:
                config._attn_implementation = attention_before
                config._experts_implementation = experts_before
                free.notify_all()


@contextmanager
def own_attention(model: PreTrainedModel) -> Iterator[None]:
    """Run a model with its own attention, while no thread has given it this one.

    Which of a row's passes met another thread's would follow from the rows before it.
    """
    free = _free.setdefault(model, threading.Condition())
    with free:
        free.wait_for(lambda: model not in _users)
        yield


def _mask(*sizes: Any, **options: Any) -> Any:
    """The model's own pattern in a pass of ours; elsewhere the mask of torch's attention."""
    from transformers.masking_utils import causal_mask_function, sdpa_mask

    if held(_current) is None:
        return sdpa_mask(*sizes, **options)
    return Pattern(options.get("mask_function", causal_mask_function))


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention in the signature of transformers, see `Attended`; its mask is what ``_mask`` gave.

    Returns:
        [rows, width, query heads, head size], and None in place of weights.

    Raises:
        NotInvariantError: The model brings a mask or a bias of its own.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    current = held(_current)
    if current is None:  # somebody else's call in another thread
        found: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **options
        )
        return found
    if not isinstance(attention_mask, Pattern) or options.get("position_bias") is not None:
        raise NotInvariantError
    current.attended += 1
    with torch._C.DisableTorchFunction():  # no product here needs tiles
        asked = Attended(module, query, key, value, attention_mask, options)
        return current.attend(asked), None
