"""The running batch of a transformers model: the public row and the experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from dpicl_rag.errors import ConfigurationError, ContextLengthError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.key_value_cache import KeyValueCache

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Tokens of one forward pass. Larger passes are no faster on a CPU, and activations grow with it.
_PASS_TOKENS = 2048


class TransformersRows:
    """Rows ``common | padding | document | appended tokens`` over one key-value cache.

    Documents end in the same slot, so appended tokens stand in the same slot of every row.
    Positions skip the padding, and the mask hides it.

    Args:
        model: A causal language model.
        depth: Its number of layers.
        common: Token ids that every row begins with; may be empty.
        documents: Token ids, one non-empty list per row.
        room: How many tokens will be appended at most.
        on_progress: Told which part of the tokens is read.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        depth: int,
        common: list[int],
        documents: list[list[int]],
        room: int,
        on_progress: Progress | None,
    ) -> None:
        self._model = model
        self._device = model.device
        self._shared = len(common)
        lengths = torch.tensor([len(d) for d in documents], device=self._device)
        self._used = self._shared + int(lengths.max())
        self._start = self._used - lengths  # first slot of each document
        self._next_position = self._shared + lengths
        self._cache = KeyValueCache(len(documents), self._used + room, depth)
        self._next: torch.Tensor | None = None
        self._read(common, documents, on_progress)

    @torch.inference_mode()
    def extend(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Append the same tokens to every row.

        Returns:
            Log-probabilities of the next token, float32 [rows, vocabulary].
        """
        logits = self._forward(list(token_ids), keep=1)[:, -1]
        self._used += len(token_ids)
        self._next_position = self._next_position + len(token_ids)
        self._next = torch.log_softmax(logits, dim=-1)
        return self._next

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
        for ids in map(list, continuations):
            total = self._next[:, ids[0]].double()
            if len(ids) > 1:
                # Runs past the end without moving it; the next call writes over these slots.
                logits = self._forward(ids[:-1], keep=len(ids) - 1)
                steps = torch.log_softmax(logits, dim=-1)
                targets = torch.tensor(ids[1:], device=self._device)
                picked = steps.gather(2, targets.expand(len(steps), -1).unsqueeze(2))
                total = total + picked.squeeze(2).double().sum(1)
            columns.append(total)
        return torch.stack(columns, dim=1)

    @torch.inference_mode()
    def _read(
        self, common: list[int], documents: list[list[int]], on_progress: Progress | None
    ) -> None:
        """Read the common part once, then the documents, a pass of similar lengths at a time."""
        head = KeyValueCache(1, len(common), self._cache.depth)
        if common:
            ids = torch.tensor([common], device=self._device)
            self._model(
                input_ids=ids,
                past_key_values=head.view(slice(None), 0),
                use_cache=True,
                logits_to_keep=1,
            )
        order = sorted(range(len(documents)), key=lambda row: len(documents[row]))
        total = sum(map(len, documents))
        done = 0
        while order:
            batch = [order.pop()]
            width = len(documents[batch[0]])
            while order and (len(batch) + 1) * width <= _PASS_TOKENS:
                batch.append(order.pop())
            self._read_documents(head, batch, [documents[row] for row in batch], width)
            done += sum(len(documents[row]) for row in batch)
            if on_progress is not None:
                # In tenths: finer steps would tell how many passes the documents took.
                on_progress(done * 10 // total / 10)

    def _read_documents(
        self, head: KeyValueCache, rows: list[int], documents: list[list[int]], width: int
    ) -> None:
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        seen = torch.zeros(len(rows), width, dtype=torch.bool)
        for i, document in enumerate(documents):
            ids[i, width - len(document) :] = torch.tensor(document)
            seen[i, width - len(document) :] = True
        positions = self._shared + (seen.cumsum(1) - 1).clamp(min=0)
        part = KeyValueCache(len(rows), self._shared + width, self._cache.depth)
        part.fan_out(head)
        common = torch.ones(len(rows), self._shared, dtype=torch.bool)
        self._model(
            input_ids=ids.to(self._device),
            attention_mask=torch.cat([common, seen], dim=1).to(self._device),
            position_ids=positions.to(self._device),
            past_key_values=part.view(slice(None), self._shared),
            use_cache=True,
            logits_to_keep=1,
        )
        self._cache.place(part, rows, shared=self._shared, end=self._used)

    def _forward(self, token_ids: list[int], keep: int) -> torch.Tensor:
        """Logits float32 of the last ``keep`` tokens [rows, keep, vocabulary]."""
        width = len(token_ids)
        if self._used + width > self._cache.slots:
            raise ContextLengthError("more tokens were appended than room was made for")
        ids = torch.tensor(token_ids, device=self._device)
        steps = torch.arange(width, device=self._device)
        slots = torch.arange(self._used + width, device=self._device)
        visible = (slots < self._shared) | (slots >= self._start[:, None])
        parts = []
        size = max(1, _PASS_TOKENS // width)
        for first in range(0, self._cache.rows, size):
            rows = slice(first, min(first + size, self._cache.rows))
            output = self._model(
                input_ids=ids.expand(rows.stop - rows.start, -1),
                attention_mask=visible[rows],
                position_ids=self._next_position[rows, None] + steps,
                past_key_values=self._cache.view(rows, self._used),
                use_cache=True,
                logits_to_keep=keep,
            )
            parts.append(output.logits.float())
        return torch.cat(parts) if len(parts) > 1 else parts[0]
