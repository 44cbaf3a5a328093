"""A language model that remembers its rows, so that many runs over few documents are cheap."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch

from dpicl_rag.language_models.base import LanguageModel, Progress, Rows
from dpicl_rag.language_models.rows import TransformersRows

Tokens = tuple[int, ...]


class RememberingModel:
    """Any language model, with every row computed once.

    A document's row is computed in one batch only and then looked up, so two neighbours see the
    same numbers for the documents they share. What the composition of a batch does to the last
    digits of a float is thereby left out; measure it on the model itself.

    Args:
        model: The language model.
        memory: Most bytes of remembered rows; the oldest go first.
    """

    def __init__(self, model: LanguageModel, *, memory: int = 1 << 30) -> None:
        self.fingerprint = model.fingerprint
        self.vocabulary_size = model.vocabulary_size
        self.context_length = model.context_length
        self.stop_tokens = model.stop_tokens
        self._model = model
        self._memory = memory
        self._used = 0
        self._rows: OrderedDict[tuple[int, object], torch.Tensor] = OrderedDict()
        self._homes: dict[tuple[Tokens, int, Tokens], tuple[_Batch, int]] = {}

    def anew(self) -> RememberingModel:
        """The same model with nothing remembered: documents read next share one batch."""
        return RememberingModel(self._model, memory=self._memory)

    def encode(self, text: str) -> list[int]:
        """As the model does."""
        return self._model.encode(text)

    def encode_template(self, text: str) -> list[int]:
        """As the model does."""
        return self._model.encode_template(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """As the model does."""
        return self._model.decode(token_ids)

    def chat(self, messages: Sequence[dict[str, str]]) -> str | None:
        """As the model does."""
        return self._model.chat(messages)

    def prefix(
        self,
        common: Sequence[int],
        documents: Sequence[Sequence[int]],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> RememberedRows:
        """Read the documents that were not read before."""
        head = tuple(common)
        keys = [(head, room, tuple(document)) for document in documents]
        new = list(dict.fromkeys(key for key in keys if key not in self._homes))
        if new:

            def read() -> Rows:
                texts = [document for _, _, document in new]
                return self._model.prefix(head, texts, room=room, on_progress=on_progress)

            batch = _Batch(read)
            self._homes.update((key, (batch, row)) for row, key in enumerate(new))
        return RememberedRows(self, [self._homes[key] for key in keys])

    def look_up(
        self, batch: _Batch, key: object, compute: Callable[[], torch.Tensor]
    ) -> torch.Tensor:
        """What ``compute`` gives, remembered under ``key``."""
        full_key = (id(batch), key)
        if full_key in self._rows:
            self._rows.move_to_end(full_key)
            return self._rows[full_key]
        found = compute()
        self._rows[full_key] = found
        self._used += found.nbytes
        while self._used > self._memory and len(self._rows) > 1:
            _, oldest = self._rows.popitem(last=False)
            self._used -= oldest.nbytes
        return found


class RememberedRows:
    """Rows looked up one by one in the batches where their documents were read."""

    def __init__(self, memory: RememberingModel, homes: list[tuple[_Batch, int]]) -> None:
        self._memory = memory
        self._homes = homes
        self._history: Tokens = ()

    def extend(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Log-probabilities of the next token, float32 [rows, vocabulary]."""
        self._history = (*self._history, *token_ids)
        history = self._history
        return self._gather(history, lambda batch: batch.next(history))

    def score(self, continuations: Sequence[Sequence[int]]) -> torch.Tensor:
        """Log-probability of each continuation in each row, float64 [rows, continuations]."""
        labels = tuple(map(tuple, continuations))
        history = self._history
        return self._gather((history, labels), lambda batch: batch.score(history, labels))

    def _gather(self, key: object, compute: Callable[[_Batch], torch.Tensor]) -> torch.Tensor:
        found: dict[int, torch.Tensor] = {}
        for batch, _ in self._homes:
            if id(batch) not in found:
                found[id(batch)] = self._memory.look_up(batch, key, lambda b=batch: compute(b))  # type: ignore[misc]
        return torch.stack([found[id(batch)][row] for batch, row in self._homes])


class _Batch:
    """Documents that were read together, and one continuation of them that is still warm."""

    def __init__(self, read: Callable[[], Rows]) -> None:
        self._read = read
        self._start: Rows = read()
        # Rows along one continuation, each history the beginning of the next.
        self._warm: list[tuple[Tokens, Rows]] = []

    def next(self, history: Tokens) -> torch.Tensor:
        """Log-probabilities after ``history`` [documents, vocabulary]."""
        while self._warm and not _goes_on(history, self._warm[-1][0]):
            self._warm.pop()
        known, rows = self._warm[-1] if self._warm else ((), None)
        if isinstance(self._start, TransformersRows):
            # A shallow copy has counters of its own over the same cache; whatever stands behind
            # what it has read is written anew before it is read.
            rows = copy.copy(self._start if rows is None else rows)
        else:
            # Rows that cannot be copied go on, or start again.
            rows = self._read() if rows is None else rows
            self._warm.clear()
        log_probs = rows.extend(history[len(known) :])
        self._warm.append((history, rows))
        return log_probs

    def score(self, history: Tokens, labels: Sequence[Tokens]) -> torch.Tensor:
        """Log-probabilities of continuations after ``history`` [documents, continuations]."""
        if not self._warm or self._warm[-1][0] != history:
            self.next(history)
        return self._warm[-1][1].score(labels)


def _goes_on(history: Tokens, known: Tokens) -> bool:
    return len(known) < len(history) and history[: len(known)] == known
