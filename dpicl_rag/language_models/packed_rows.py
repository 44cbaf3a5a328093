"""Rows that share forward passes without moving each other's bits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.attention import (
    DocumentPass,
    Joint,
    Pass,
    SlotGroup,
    Stepping,
    row_attention,
)
from dpicl_rag.language_models.hardware import enough_memory, is_out_of_memory
from dpicl_rag.language_models.key_value_cache import KeyValueCache, Layers, passed_to
from dpicl_rag.language_models.tiles import NotInvariantError, Tiles
from dpicl_rag.language_models.transformers_rows import (
    CachedStates,
    NewTokens,
    Tokens,
    normalised,
    width_of,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Tokens of one forward pass; activations grow with them. Larger passes are no faster on a CPU,
# while a GPU is busy with many tokens only.
_PASS_TOKENS = 1024
_PASS_TOKENS_GPU = 8192

_WIDE = 8  # new tokens of a row from which larger tiles pay
_NARROWEST = 64  # slots


class PackedRows:
    """Each row ``shared prefix | padding | input | appended tokens``; see `Batch`.

    Documents are read one behind the other. Appended tokens go through the model together; rows
    whose own part takes the same public number of slots are kept together.

    Args:
        model: A causal language model.
        depth: Its number of layers.
        prefix: Token ids that every row begins with.
        inputs: Token ids, one non-empty sequence for each row.
        room: How many tokens will be appended at most.
        cached: Where keys and values are kept.
        advance: Called with the number of tokens just read.

    Raises:
        ModelError: There is not enough memory.
        NotInvariantError: Rows of this model cannot share a pass.
    """

    version = "tiles 3"
    _tiled = True

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
        self._passes = _Passes(model, depth, self._tiled)
        self._room = room
        self._used = 0
        # Where a row stands among the others changes nothing: the widest own parts come first.
        widths = [_public_width(len(own)) for own in inputs]
        self._order = sorted(range(len(inputs)), key=lambda row: -widths[row])
        self._groups: list[tuple[int, KeyValueCache]] = []
        for width in sorted(set(widths), reverse=True):
            first = sum(cache.rows for _, cache in self._groups)
            self._groups.append((first, KeyValueCache(widths.count(width), width, room)))
        device = self._passes.device
        lengths = torch.tensor([len(inputs[row]) for row in self._order], device=device)
        self._starts = torch.tensor([widths[row] for row in self._order], device=device) - lengths
        self._positions = len(prefix) + lengths
        with enough_memory(), torch.inference_mode():
            self._passes.share(prefix, cached)
            self._read([inputs[row] for row in self._order], cached, advance)

    def move(self, tokens: int) -> None:
        """Count appended tokens, as `Batch.move` says."""
        self._used += tokens

    def only(self, rows: Sequence[int]) -> PackedRows:
        """Some of the rows, as `Batch.only` says; keys and values are copied."""
        places = {row: place for place, row in enumerate(self._order)}
        kept = sorted(range(len(rows)), key=lambda at: places[rows[at]])
        here = [places[rows[at]] for at in kept]
        other = copy.copy(self)
        other._order, other._groups = kept, []
        for first, cache in self._groups:
            own = [place - first for place in here if first <= place < first + cache.rows]
            if own:
                begins = sum(group.rows for _, group in other._groups)
                other._groups.append((begins, cache.only(own)))
        other._starts, other._positions = self._starts[here], self._positions[here]
        return other

    def forward(self, token_ids: NewTokens, keep: int) -> torch.Tensor:
        """Log-probabilities after new tokens, as `Batch.forward` says."""
        return forward_each([self], [token_ids], keep)[0]

    def shares_passes(self, other: PackedRows) -> bool:
        """True of two batches that `forward_each` takes: of one model, and of rows among many."""
        return self._passes.model is other._passes.model and self._tiled and other._tiled

    def _in_order(self, token_ids: NewTokens) -> torch.Tensor:
        """New tokens of each row in the order in which rows are kept, int64 [rows, width]."""
        device = self._passes.device
        if isinstance(token_ids, torch.Tensor):
            return token_ids.to(device)[self._order]
        return torch.tensor([list(token_ids)], device=device).expand(len(self._order), -1)

    def _stepping(self, rows: slice, width: int) -> Stepping:
        return Stepping(self._passes.shared, self._parts(rows), self._used, width)

    def _position_ids(self, rows: slice, width: int) -> torch.Tensor:
        """[rows, width]."""
        steps = torch.arange(self._used, self._used + width, device=self._passes.device)
        return self._positions[rows, None] + steps

    def _parts(self, rows: slice) -> list[SlotGroup]:
        """The part of each group in a slice of rows."""
        found = []
        for first, cache in self._groups:
            start, stop = max(rows.start, first), min(rows.stop, first + cache.rows)
            if start < stop:
                found.append(
                    SlotGroup(
                        slice(start - rows.start, stop - rows.start),
                        cache,
                        slice(start - first, stop - first),
                        self._starts[start:stop],
                    )
                )
        return found

    def _read(
        self, inputs: Sequence[Tokens], cached: CachedStates, advance: Callable[[int], None]
    ) -> None:
        unread = []
        for row, own in enumerate(inputs):
            layers = cached.fetch(own, self._passes.device)
            if layers is None:
                unread.append(row)
            else:
                self._place(row, layers)
                advance(len(own))

        def read(part: slice) -> None:
            rows = unread[part]
            lengths = [len(inputs[row]) for row in rows]
            reading = DocumentPass(self._passes.shared, lengths, self._passes.device)
            self._passes.read(reading, [token for row in rows for token in inputs[row]])
            first = 0
            for row, length in zip(rows, lengths, strict=True):
                own = slice(first, first + length)
                layers = [(keys[:, own], values[:, own]) for keys, values in reading.layers]
                self._place(row, layers)
                cached.keep(inputs[row], layers)
                first += length
            advance(sum(lengths))

        self._passes.over([len(inputs[row]) for row in unread], read)

    def _place(self, row: int, layers: Layers) -> None:
        """Put an input's keys and values at the end of its own part."""
        first, cache = next(group for group in reversed(self._groups) if group[0] <= row)
        place, width = row - first, cache.slots - cache.room
        slots = slice(width - layers[0][0].shape[-2], width)
        for i, (keys, values) in enumerate(layers):
            cache.place(slice(place, place + 1), slots, i, keys[None], values[None])


class SingleRow(PackedRows):
    """The same for one row that never has company, in products of the sizes that it needs.

    Tiles are filled up to public sizes, which a row alone would pay for with each token.
    """

    version = "single 1"
    _tiled = False


def forward_each(
    batches: Sequence[PackedRows], token_ids: Sequence[NewTokens], keep: int
) -> list[torch.Tensor]:
    """`Batch.forward` for the rows of several answers at once, in passes that they share.

    Every row has the bits that it has in a pass of its answer alone.

    Args:
        batches: Of one model.
        token_ids: New tokens of each batch, the same number for all.
        keep: How many of the last of them are asked for.

    Returns:
        Of each batch float32 [rows, keep, vocabulary].

    Raises:
        ContextLengthError: No room was made for so many tokens.
    """
    width, passes = width_of(token_ids[0]), batches[0]._passes
    if any(batch._used + width > batch._room for batch in batches):
        raise ContextLengthError("more tokens were appended than room was made for")
    ids = [batch._in_order(own) for batch, own in zip(batches, token_ids, strict=True)]
    places = [torch.tensor(batch._order, device=passes.device) for batch in batches]
    firsts = list(accumulate(map(len, places), initial=0))
    found: list[torch.Tensor | None] = [None] * len(batches)

    def run(rows: slice) -> None:
        # Of each answer that has rows here: which one, which rows of it, and where they are.
        inside = []
        for answer, first in enumerate(firsts[:-1]):
            start, stop = max(rows.start, first), min(rows.stop, firsts[answer + 1])
            if start < stop:
                own = slice(start - first, stop - first)
                inside.append((answer, own, slice(start - rows.start, stop - rows.start)))
        steppings = [(here, batches[answer]._stepping(own, width)) for answer, own, here in inside]
        logits = passes.run(
            steppings[0][1] if len(steppings) == 1 else Joint(steppings),
            wide=width >= _WIDE,
            input_ids=torch.cat([ids[answer][own] for answer, own, _ in inside]),
            position_ids=torch.cat(
                [batches[answer]._position_ids(own, width) for answer, own, _ in inside]
            ),
            logits_to_keep=keep,
        ).logits
        log_probs = normalised(logits.float())
        for answer, own, here in inside:
            if (into := found[answer]) is None:
                # Filled pass by pass, so that there is no second copy of everything.
                into = log_probs.new_empty(len(places[answer]), *log_probs.shape[1:])
                found[answer] = into
            into[places[answer][own]] = log_probs[here]

    # The log-probabilities of a place take memory too: it counts as two more tokens.
    passes.over([width + 2 * keep] * firsts[-1], run)
    return [one for one in found if one is not None]


class _Passes:
    """Forward passes over rows that begin with one shared prefix."""

    def __init__(self, model: PreTrainedModel, depth: int, tiled: bool) -> None:
        self.model = model
        self._depth = depth
        self._tiled = tiled
        self.shared: Layers = []
        self.device = model.device
        self.tokens = _PASS_TOKENS if self.device.type == "cpu" else _PASS_TOKENS_GPU

    def share(self, prefix: Tokens, cached: CachedStates) -> None:
        """Fetch or read what all rows begin with, once."""
        if not prefix:
            return
        layers = cached.fetch((), self.device)
        if layers is None:
            reading = DocumentPass([], [len(prefix)], self.device)
            self.read(reading, prefix)
            layers = reading.layers
            cached.keep((), layers)
        # In memory of one layout: products may look at where and how a matrix lies.
        self.shared = [
            (
                keys.clone(memory_format=torch.contiguous_format),
                values.clone(memory_format=torch.contiguous_format),
            )
            for keys, values in layers
        ]

    def read(self, reading: DocumentPass, token_ids: Tokens) -> None:
        """Keys and values of documents; nothing is predicted."""
        self.run(
            reading,
            wide=True,
            body=True,
            input_ids=torch.tensor([list(token_ids)], device=self.device),
            position_ids=reading.positions,
        )

    def run(self, current: Pass, *, wide: bool, body: bool = False, **inputs: Any) -> Any:
        """The model's output for one pass; without its head for ``body``.

        Raises:
            NotInvariantError: An attention layer did not take part.
        """
        called = self.model.base_model if body else self.model
        layers = [_Layer(current, index) for index in range(self._depth)]
        with (
            row_attention(self.model),
            current.running(),
            Tiles(wide) if self._tiled else nullcontext(),
            torch.autocast(self.device.type, enabled=False),
        ):
            found = called(use_cache=True, **passed_to(called, Cache(layers=layers)), **inputs)
        if current.attended != self._depth:
            # Nothing may be drawn from rows that lack their beginning.
            raise NotInvariantError
        return found

    def over(self, tokens: Sequence[int], run: Callable[[slice], None]) -> None:
        """Run over slices of rows; where memory is short, over smaller ones.

        Args:
            tokens: What each row adds to a pass.
            run: Does one pass. Doing it again after an error changes nothing.
        """
        first = 0
        while first < len(tokens):
            last, size = first + 1, tokens[first]
            while last < len(tokens) and size + tokens[last] <= self.tokens:
                size += tokens[last]
                last += 1
            try:
                run(slice(first, last))
            except RuntimeError as error:
                if last == first + 1 or not is_out_of_memory(error):
                    raise
                self.tokens = max(1, size // 2)
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()
            else:
                first = last


class _Layer(CacheLayerMixin):  # type: ignore[misc]
    """Hands new keys and values to the pass; its attention knows the earlier ones."""

    is_sliding = False

    def __init__(self, current: Pass, index: int) -> None:
        super().__init__()
        self._current = current
        self._index = index
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing: the pass allocates."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self._current.store(self._index, key_states, value_states)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return query_length, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return -1


def _public_width(tokens: int) -> int:
    """Slots of an own part: few widths, the same ones for every corpus."""
    width = _NARROWEST
    while width < tokens:
        width *= 2
    return width
