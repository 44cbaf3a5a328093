"""The running batch of a transformers model: the public row and the experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from dpicl_rag.errors import ConfigurationError, ContextLengthError, ModelError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.key_value_cache import KeyValueCache, Layers
from dpicl_rag.language_models.memory import enough_memory, is_out_of_memory
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.shared_prefix import SharedPrefix

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Tokens of one forward pass; activations grow with them. Larger passes are no faster on a CPU,
# while a GPU is busy with many tokens only.
_PASS_TOKENS = 512
_PASS_TOKENS_GPU = 8192


class TransformersRows:
    """Rows ``shared prefix | padding | document | appended tokens``.

    The shared prefix is kept once. Documents end in the same slot of one key-value cache, so
    appended tokens stand in the same slot of every row. Positions skip the padding, and the mask
    hides it.

    Args:
        model: A causal language model.
        depth: Its number of layers.
        common: Token ids that every row begins with; empty where the model cannot share them.
        documents: Token ids, one non-empty list per row, the public row's first.
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
        common: list[int],
        documents: list[list[int]],
        room: int,
        *,
        cache: PrefixCache | None,
        fingerprint: str,
        on_progress: Progress | None = None,
    ) -> None:
        self._model = model
        self._device = model.device
        self._pass_tokens = _PASS_TOKENS if self._device.type == "cpu" else _PASS_TOKENS_GPU
        lengths = torch.tensor([len(d) for d in documents], device=self._device)
        self._used = int(lengths.max())
        self._start = self._used - lengths  # first slot of each document
        self._next_position = len(common) + lengths
        self._cache = KeyValueCache(len(documents), self._used + room, depth)
        self._next: torch.Tensor | None = None
        self._shared: SharedPrefix | None = None
        with enough_memory():
            self._read(common, documents, cache, fingerprint, on_progress)

    def extend(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Append the same tokens to every row.

        Returns:
            Log-probabilities of the next token, float32 [rows, vocabulary].
        """
        return self._append(list(token_ids), keep=1)[:, -1]

    def extend_each(self, token_ids: Sequence[int], keep: int) -> torch.Tensor:
        """Append the same tokens to every row, in one pass.

        Returns:
            Log-probabilities of what follows each of the last ``keep`` tokens, float32
            [rows, keep, vocabulary].
        """
        return self._append(list(token_ids), keep)

    def rewind(self, tokens: int) -> None:
        """Forget the last ``tokens`` appended tokens."""
        self._used -= tokens
        self._next_position = self._next_position - tokens
        self._next = None

    @torch.inference_mode()
    def score(self, continuations: Sequence[Sequence[int]]) -> torch.Tensor:
        """Log-probability of each continuation in each row; the rows stay as they were.

        Args:
            continuations: Non-empty sequences of token ids.

        Returns:
            Shape [rows, continuations], float64.
        """
        if self._next is None:
            raise ConfigurationError("rows are scored after at least one call of extend")
        columns = []
        with enough_memory():
            for ids in map(list, continuations):
                total = self._next[:, ids[0]].double()
                if len(ids) > 1:
                    # Runs past the end without moving it; the next call writes over these slots.
                    steps = self._forward(ids[:-1], keep=len(ids) - 1)
                    targets = torch.tensor(ids[1:], device=self._device)
                    picked = steps.gather(2, targets.expand(len(steps), -1).unsqueeze(2))
                    total = total + picked.squeeze(2).double().sum(1)
                columns.append(total)
        return torch.stack(columns, dim=1)

    @torch.inference_mode()
    def _append(self, token_ids: list[int], keep: int) -> torch.Tensor:
        self._next = None  # frees its memory
        with enough_memory():
            log_probs = self._forward(token_ids, keep)
        self._used += len(token_ids)
        self._next_position = self._next_position + len(token_ids)
        self._next = log_probs[:, -1]
        return log_probs

    @torch.inference_mode()
    def _read(
        self,
        common: list[int],
        documents: list[list[int]],
        cache: PrefixCache | None,
        fingerprint: str,
        on_progress: Progress | None,
    ) -> None:
        """Fetch or read the common part once, then each document."""
        # The public row is read by itself and kept apart: not one of its bits may depend on the
        # documents that were read beside it, in this question or an earlier one.
        public = _Shelf(cache, f"{fingerprint} public row", common)
        private = _Shelf(cache, fingerprint, common)
        if common:
            layers = public.fetch((), self._device)
            if layers is None:
                layers = self._read_common(common)
                public.keep((), layers)
            self._shared = SharedPrefix(layers)
        total = sum(map(len, documents))
        done = tenths = 0

        def advance(tokens: int) -> None:
            nonlocal done, tenths
            done += tokens
            # Every tenth once: other steps would tell how many passes the documents took.
            while on_progress is not None and tenths < done * 10 // total:
                tenths += 1
                on_progress(tenths / 10)

        for rows, shelf in ((range(1), public), (range(1, len(documents)), private)):
            own = {row: documents[row] for row in rows}
            unread = self._fetch(own, shelf)
            advance(sum(map(len, own.values())) - sum(map(len, unread.values())))
            self._read_documents(unread, len(common), shelf, advance)

    def _fetch(self, documents: dict[int, list[int]], shelf: _Shelf) -> dict[int, list[int]]:
        """Place what was read before; returns the others."""
        unread = {}
        for row, document in documents.items():
            layers = shelf.fetch(document, self._device)
            if layers is None:
                unread[row] = document
            else:
                self._cache.place(row, slice(self._used - len(document), self._used), layers)
        return unread

    def _read_documents(
        self,
        documents: dict[int, list[int]],
        before: int,
        shelf: _Shelf,
        advance: Callable[[int], None],
    ) -> None:
        # Longest first: rows of one pass are of similar lengths, and memory is short at once.
        ordered = sorted(documents, key=lambda row: -len(documents[row]))

        def read(part: slice) -> None:
            rows = ordered[part]
            found = self._read_pass([documents[row] for row in rows], before)
            for i, row in enumerate(rows):
                size = len(documents[row])
                layers = found.take(i, slice(found.slots - size, found.slots))
                self._cache.place(row, slice(self._used - size, self._used), layers)
                shelf.keep(documents[row], layers)
            advance(sum(len(documents[row]) for row in rows))

        self._in_passes(len(ordered), lambda first: len(documents[ordered[first]]), read)

    def _read_common(self, common: list[int]) -> Layers:
        head = KeyValueCache(1, len(common), self._cache.depth)
        self._model(
            input_ids=torch.tensor([common], device=self._device),
            past_key_values=head.view(slice(None), 0),
            use_cache=True,
            logits_to_keep=1,
        )
        return head.take(0, slice(None))

    def _read_pass(self, documents: list[list[int]], before: int) -> KeyValueCache:
        """Keys and values of documents that stand at the end of their rows."""
        width = max(map(len, documents))
        ids = torch.zeros(len(documents), width, dtype=torch.long)
        seen = torch.zeros(len(documents), width, dtype=torch.bool)
        for i, document in enumerate(documents):
            ids[i, width - len(document) :] = torch.tensor(document)
            seen[i, width - len(document) :] = True
        positions = before + (seen.cumsum(1) - 1).clamp(min=0)
        part = KeyValueCache(len(documents), width, self._cache.depth)
        self._call(
            input_ids=ids.to(self._device),
            attention_mask=seen.to(self._device),
            position_ids=positions.to(self._device),
            past_key_values=part.view(slice(None), 0),
            logits_to_keep=1,
        )
        return part

    def _forward(self, token_ids: list[int], keep: int) -> torch.Tensor:
        """Log-probabilities float32 after the last ``keep`` tokens [rows, keep, vocabulary]."""
        width = len(token_ids)
        if self._used + width > self._cache.slots:
            raise ContextLengthError("more tokens were appended than room was made for")
        ids = torch.tensor(token_ids, device=self._device)
        steps = torch.arange(width, device=self._device)
        slots = torch.arange(self._used + width, device=self._device)
        visible = slots >= self._start[:, None]
        found: torch.Tensor | None = None

        def run(rows: slice) -> None:
            nonlocal found
            logits = self._call(
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
        self._in_passes(self._cache.rows, lambda _: width + 2 * keep, run)
        assert found is not None
        return found

    def _call(self, **inputs: object) -> torch.Tensor:
        """Logits of one pass over rows that begin with the shared prefix."""
        shared = self._shared
        if shared is None:
            logits: torch.Tensor = self._model(use_cache=True, **inputs).logits
            return logits
        before = shared.reads
        try:
            logits = self._model(use_cache=True, shared_prefix=shared, **inputs).logits
        except TypeError as error:
            raise SharingError from error
        if shared.reads - before != self._cache.depth:
            # Nothing may be drawn from rows that lack their beginning.
            raise SharingError
        return logits

    def _in_passes(
        self, rows: int, width: Callable[[int], int], run: Callable[[slice], None]
    ) -> None:
        """Run over slices of rows; where memory is short, over smaller ones.

        Args:
            rows: How many there are.
            width: Tokens of each row in the pass that begins with this row.
            run: Does one pass. Doing it again after an error changes nothing.
        """
        first = 0
        while first < rows:
            size = max(1, self._pass_tokens // width(first))
            try:
                run(slice(first, min(first + size, rows)))
            except RuntimeError as error:
                if size == 1 or not is_out_of_memory(error):
                    raise
                self._pass_tokens = max(1, size * width(first) // 2)
                if self._device.type == "cuda":
                    torch.cuda.empty_cache()
            else:
                first += size


class SharingError(ModelError):
    """The model does not hand the shared prefix to its attention layers."""


class _Shelf:
    """One model's and one shared prefix's place in a cache, or none."""

    def __init__(self, cache: PrefixCache | None, fingerprint: str, common: list[int]) -> None:
        self._cache = cache
        self._fingerprint = fingerprint
        self._common = common

    def fetch(self, document: Sequence[int], device: torch.device) -> Layers | None:
        if self._cache is None:
            return None
        return self._cache.get(self._key(document), device)

    def keep(self, document: Sequence[int], layers: Layers) -> None:
        if self._cache is not None:
            own = [(keys.clone(), values.clone()) for keys, values in layers]
            self._cache.put(self._key(document), own)

    def _key(self, document: Sequence[int]) -> str:
        return PrefixCache.key(self._fingerprint, self._common, document)


def _normalised(logits: torch.Tensor) -> torch.Tensor:
    """Log-probabilities, written over the logits: with many experts a second copy is large."""
    for first in range(0, len(logits), 32):
        part = logits[first : first + 32]
        part.copy_(torch.log_softmax(part, dim=-1))
    return logits
