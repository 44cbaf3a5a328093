"""The running batches of a transformers model: the public row by itself, and the experts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from dpicl_rag.errors import ConfigurationError, ContextLengthError, ModelError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.key_value_cache import KeyValueCache, Layers
from dpicl_rag.language_models.memory import enough_memory, is_out_of_memory
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.shared_prefix import SharedPrefix
from dpicl_rag.mechanisms.step import DenseStep, Step

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Tokens = Sequence[int]

# Tokens of one forward pass; activations grow with them. Larger passes are no faster on a CPU,
# while a GPU is busy with many tokens only.
_PASS_TOKENS = 512
_PASS_TOKENS_GPU = 8192


class SharingError(ModelError):
    """The model does not hand the shared prefix to its attention layers."""


class TransformersRows:
    """The public row and the experts, each ``shared prefix | input | appended tokens``.

    The public row is read and continued in passes of its own, and kept apart: not one of its bits
    depends on what the experts read, in this question or an earlier one.

    Args:
        model: A causal language model.
        depth: Its number of layers.
        prefix: Token ids that every row begins with; empty where the model cannot share them.
        inputs: Token ids, one non-empty sequence for each row, the public row's first.
        room: How many tokens will be appended at most.
        cache: Where keys and values of prefixes are kept, if anywhere.
        fingerprint: Identifies the model in ``cache``.
        on_progress: Told which part of the tokens is read.

    Raises:
        ModelError: There is not enough memory.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        depth: int,
        prefix: Tokens,
        inputs: Sequence[Tokens],
        room: int,
        *,
        cache: PrefixCache | None,
        fingerprint: str,
        on_progress: Progress | None = None,
    ) -> None:
        public = _Shelf(cache, f"{fingerprint} public row", prefix)
        private = _Shelf(cache, fingerprint, prefix)
        passes = _Passes(model, depth)
        advance = _in_tenths(sum(map(len, inputs)), on_progress)
        with enough_memory(), torch.inference_mode():
            passes.share(prefix, public)
            self._batches = [
                _Batch(passes, len(prefix), own, room, shelf, advance)
                for own, shelf in ((inputs[:1], public), (inputs[1:], private))
                if own
            ]

    def extend(self, token_ids: Tokens) -> Step:
        """Append the same tokens to every row; log-probabilities in float32."""
        return self.extend_each(token_ids, keep=1)[0]

    def extend_each(self, token_ids: Tokens, keep: int) -> list[Step]:
        """Append the same tokens to every row; a step after each of the last ``keep``."""
        with enough_memory(), torch.inference_mode():
            found = [batch.append(list(token_ids), keep) for batch in self._batches]
        return [_step([log_probs[:, at] for log_probs in found]) for at in range(keep)]

    def rewind(self, tokens: int) -> None:
        """Forget the last ``tokens`` appended tokens."""
        for batch in self._batches:
            batch.rewind(tokens)

    def score(self, continuations: Sequence[Tokens]) -> Step:
        """Log-probabilities of continuations, normalised over them; rows stay as they were."""
        with enough_memory(), torch.inference_mode():
            found = [batch.score(continuations) for batch in self._batches]
            return _step([torch.log_softmax(scores, dim=-1) for scores in found])

    def fork(self) -> TransformersRows:
        """A copy with counters of its own over the same cache.

        What one of them appends takes the place of what the others have appended since.
        """
        other = copy.copy(self)
        other._batches = [copy.copy(batch) for batch in self._batches]
        return other


def _step(found: Sequence[torch.Tensor]) -> Step:
    """A step of the rows of one or two batches, each [rows, candidates]."""
    public = found[0]
    return DenseStep(public[0], found[1] if len(found) > 1 else public[1:])


class _Batch:
    """Rows ``shared prefix | padding | input | appended tokens`` in one key-value cache.

    Inputs end in the same slot, so appended tokens stand in the same slot of every row. Positions
    skip the padding, and the mask hides it.
    """

    def __init__(
        self,
        passes: _Passes,
        before: int,
        inputs: Sequence[Tokens],
        room: int,
        shelf: _Shelf,
        advance: Callable[[int], None],
    ) -> None:
        self._passes = passes
        lengths = torch.tensor([len(own) for own in inputs], device=passes.device)
        self._used = int(lengths.max())
        self._start = self._used - lengths  # first slot of each input
        self._next_position = before + lengths
        self._cache = KeyValueCache(len(inputs), self._used + room, passes.depth)
        self._next: torch.Tensor | None = None
        self._read(inputs, before, shelf, advance)

    def append(self, token_ids: list[int], keep: int) -> torch.Tensor:
        """Log-probabilities float32 after the last ``keep`` tokens [rows, keep, vocabulary]."""
        self._next = None  # frees its memory
        log_probs = self._forward(token_ids, keep)
        self._used += len(token_ids)
        self._next_position = self._next_position + len(token_ids)
        self._next = log_probs[:, -1]
        return log_probs

    def rewind(self, tokens: int) -> None:
        self._used -= tokens
        self._next_position = self._next_position - tokens
        self._next = None

    def score(self, continuations: Sequence[Tokens]) -> torch.Tensor:
        """Log-probability of each continuation in each row, float64 [rows, continuations]."""
        if self._next is None:
            raise ConfigurationError("rows are scored after at least one call of extend")
        columns = []
        for ids in map(list, continuations):
            total = self._next[:, ids[0]].double()
            if len(ids) > 1:
                # Runs past the end without moving it; the next call writes over these slots.
                steps = self._forward(ids[:-1], keep=len(ids) - 1)
                targets = torch.tensor(ids[1:], device=steps.device)
                picked = steps.gather(2, targets.expand(len(steps), -1).unsqueeze(2))
                total = total + picked.squeeze(2).double().sum(1)
            columns.append(total)
        return torch.stack(columns, dim=1)

    def _read(
        self, inputs: Sequence[Tokens], before: int, shelf: _Shelf, advance: Callable[[int], None]
    ) -> None:
        unread = []
        for row, own in enumerate(inputs):
            layers = shelf.fetch(own, self._passes.device)
            if layers is None:
                unread.append(row)
            else:
                self._place(row, layers)
                advance(len(own))
        # Longest first: rows of one pass are of similar lengths, and memory is short at once.
        unread.sort(key=lambda row: -len(inputs[row]))

        def read(part: slice) -> None:
            rows = unread[part]
            found = self._read_pass([inputs[row] for row in rows], before)
            for i, row in enumerate(rows):
                layers = found.take(i, slice(found.slots - len(inputs[row]), found.slots))
                self._place(row, layers)
                shelf.keep(inputs[row], layers)
            advance(sum(len(inputs[row]) for row in rows))

        self._passes.over(len(unread), lambda first: len(inputs[unread[first]]), read)

    def _place(self, row: int, layers: Layers) -> None:
        """Put an input's keys and values where it ends in this batch."""
        size = layers[0][0].shape[-2]
        self._cache.place(row, slice(self._used - size, self._used), layers)

    def _read_pass(self, inputs: Sequence[Tokens], before: int) -> KeyValueCache:
        """Keys and values of inputs that stand at the end of their rows."""
        width = max(map(len, inputs))
        ids = torch.zeros(len(inputs), width, dtype=torch.long)
        seen = torch.zeros(len(inputs), width, dtype=torch.bool)
        for i, own in enumerate(inputs):
            ids[i, width - len(own) :] = torch.tensor(own)
            seen[i, width - len(own) :] = True
        positions = before + (seen.cumsum(1) - 1).clamp(min=0)
        part = KeyValueCache(len(inputs), width, self._cache.depth)
        device = self._passes.device
        self._passes.call(
            input_ids=ids.to(device),
            attention_mask=seen.to(device),
            position_ids=positions.to(device),
            past_key_values=part.view(slice(None), 0),
            logits_to_keep=1,
        )
        return part

    def _forward(self, token_ids: list[int], keep: int) -> torch.Tensor:
        """Log-probabilities float32 after the last ``keep`` tokens [rows, keep, vocabulary]."""
        width, device = len(token_ids), self._passes.device
        if self._used + width > self._cache.slots:
            raise ContextLengthError("more tokens were appended than room was made for")
        ids = torch.tensor(token_ids, device=device)
        steps = torch.arange(width, device=device)
        slots = torch.arange(self._used + width, device=device)
        visible = slots >= self._start[:, None]
        found: torch.Tensor | None = None

        def run(rows: slice) -> None:
            nonlocal found
            logits = self._passes.call(
                input_ids=ids.expand(rows.stop - rows.start, -1),
                attention_mask=visible[rows],
                position_ids=self._next_position[rows, None] + steps,
                past_key_values=self._cache.view(rows, self._used),
                logits_to_keep=keep,
            )
            log_probs = _normalised(logits.float())
            if rows.stop - rows.start == self._cache.rows:
                found = log_probs
                return
            if found is None:
                # Filled pass by pass, so that there is no second copy here either.
                found = log_probs.new_empty(self._cache.rows, *log_probs.shape[1:])
            found[rows] = log_probs

        # The log-probabilities of a place take memory too: it counts as two more tokens.
        self._passes.over(self._cache.rows, lambda _: width + 2 * keep, run)
        assert found is not None
        return found


class _Passes:
    """Forward passes over rows that begin with one shared prefix."""

    def __init__(self, model: PreTrainedModel, depth: int) -> None:
        self._model = model
        self._shared: SharedPrefix | None = None
        self.depth = depth
        self.device = model.device
        self.tokens = _PASS_TOKENS if self.device.type == "cpu" else _PASS_TOKENS_GPU

    def share(self, prefix: Tokens, shelf: _Shelf) -> None:
        """Fetch or read what all rows begin with, once."""
        if not prefix:
            return
        layers = shelf.fetch((), self.device)
        if layers is None:
            head = KeyValueCache(1, len(prefix), self.depth)
            self.call(
                input_ids=torch.tensor([list(prefix)], device=self.device),
                past_key_values=head.view(slice(None), 0),
                logits_to_keep=1,
            )
            layers = head.take(0, slice(None))
            shelf.keep((), layers)
        self._shared = SharedPrefix(layers)

    def call(self, **inputs: object) -> torch.Tensor:
        """Logits of one pass."""
        shared = self._shared
        if shared is None:
            logits: torch.Tensor = self._model(use_cache=True, **inputs).logits
            return logits
        before = shared.reads
        try:
            logits = self._model(use_cache=True, shared_prefix=shared, **inputs).logits
        except TypeError as error:
            raise SharingError from error
        if shared.reads - before != self.depth:
            # Nothing may be drawn from rows that lack their beginning.
            raise SharingError
        return logits

    def over(self, rows: int, width: Callable[[int], int], run: Callable[[slice], None]) -> None:
        """Run over slices of rows; where memory is short, over smaller ones.

        Args:
            rows: How many there are.
            width: Tokens of each row in the pass that begins with this row.
            run: Does one pass. Doing it again after an error changes nothing.
        """
        first = 0
        while first < rows:
            size = max(1, self.tokens // width(first))
            try:
                run(slice(first, min(first + size, rows)))
            except RuntimeError as error:
                if size == 1 or not is_out_of_memory(error):
                    raise
                self.tokens = max(1, size * width(first) // 2)
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()
            else:
                first += size


class _Shelf:
    """One model's and one shared prefix's place in a cache, or none."""

    def __init__(self, cache: PrefixCache | None, fingerprint: str, prefix: Tokens) -> None:
        self._cache = cache
        self._fingerprint = fingerprint
        self._prefix = prefix

    def fetch(self, own: Tokens, device: torch.device) -> Layers | None:
        if self._cache is None:
            return None
        return self._cache.get(self._key(own), device)

    def keep(self, own: Tokens, layers: Layers) -> None:
        if self._cache is not None:
            copies = [(keys.clone(), values.clone()) for keys, values in layers]
            self._cache.put(self._key(own), copies)

    def _key(self, own: Tokens) -> str:
        return PrefixCache.key(self._fingerprint, self._prefix, own)


def _in_tenths(total: int, on_progress: Progress | None) -> Callable[[int], None]:
    """Takes how many more of ``total`` tokens are read; tells every tenth once.

    Other steps would tell how many passes the inputs took.
    """
    done = tenths = 0

    def advance(tokens: int) -> None:
        nonlocal done, tenths
        done += tokens
        while on_progress is not None and tenths < done * 10 // total:
            tenths += 1
            on_progress(tenths / 10)

    return advance


def _normalised(logits: torch.Tensor) -> torch.Tensor:
    """Log-probabilities, written over the logits: with many experts a second copy is large."""
    for first in range(0, len(logits), 32):
        part = logits[first : first + 32]
        part.copy_(torch.log_softmax(part, dim=-1))
    return logits
