"""Language models that remember rows, so that many runs over few documents are cheap."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

import torch

from dpicl_rag.language_models.base import Input, LanguageModel, Progress, Rows, WrappedModel
from dpicl_rag.language_models.transformers_rows import TransformersRows
from dpicl_rag.mechanisms.step import DenseStep, Step, rows_of

Tokens = tuple[int, ...]


class RememberingModel(WrappedModel[LanguageModel]):
    """Any language model of one process, with every row computed once.

    A document's row is computed once and then looked up, so two neighbours see the same numbers for
    the documents they share, also with an engine whose rows move with their company. Whether they
    do is thereby left out; `audit_near_ties` looks for it.

    Args:
        model: The language model.
        memory: Most bytes of remembered rows; the oldest go first.
    """

    def __init__(self, model: LanguageModel, *, memory: int = 1 << 30) -> None:
        super().__init__(model)
        self._memory = memory
        self._used = 0
        self._rows: OrderedDict[tuple[int, Hashable], torch.Tensor] = OrderedDict()
        self._homes: dict[tuple[Hashable, ...], tuple[_Batch, int]] = {}

    def anew(self) -> RememberingModel:
        """The same model with nothing remembered: documents read next share one batch."""
        return self._wrapping(self._model)

    def _wrapping(self, model: LanguageModel) -> RememberingModel:
        return RememberingModel(model, memory=self._memory)

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> RememberedRows:
        """Read the inputs that were not read before, beside the public row."""
        head = tuple(prefix)
        keys = [(head, room, one, at == 0) for at, one in enumerate(inputs)]
        new = dict.fromkeys(key for key in keys if key not in self._homes)
        if new:
            # Row 0 of every batch is the public row.
            order = list(dict.fromkeys([keys[0], *new]))
            batch = _Batch(
                lambda: self._model.read(
                    head, [key[2] for key in order], room=room, on_progress=on_progress
                )
            )
            self._homes.update((key, (batch, order.index(key))) for key in new)
        return RememberedRows(self, [self._homes[key] for key in keys])

    def look_up(
        self, batch: _Batch, key: Hashable, compute: Callable[[], torch.Tensor]
    ) -> torch.Tensor:
        """The result of ``compute``, remembered under ``key``."""
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

    def extend(self, token_ids: Sequence[int]) -> Step:
        """Log-probabilities of the next token."""
        self._history = (*self._history, *token_ids)
        history = self._history
        return self._gather(history, lambda batch: batch.next(history))

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        """Log-probabilities of continuations, normalised over them."""
        labels = tuple(map(tuple, continuations))
        history = self._history
        return self._gather((history, labels), lambda batch: batch.score(history, labels))

    def _gather(self, key: Hashable, compute: Callable[[_Batch], torch.Tensor]) -> Step:
        found: dict[int, torch.Tensor] = {}
        for batch, _ in self._homes:
            if id(batch) not in found:
                found[id(batch)] = self._memory.look_up(batch, key, lambda b=batch: compute(b))  # type: ignore[misc]
        rows = torch.stack([found[id(batch)][row] for batch, row in self._homes])
        return DenseStep(rows[0], rows[1:])


class _Batch:
    """Documents that were read together, and one continuation of them that is still warm."""

    def __init__(self, read: Callable[[], Rows]) -> None:
        self._read = read
        self._start: Rows = read()
        # Rows along one continuation, each history the beginning of the next.
        self._warm: list[tuple[Tokens, Rows]] = []

    def next(self, history: Tokens) -> torch.Tensor:
        """Log-probabilities after ``history`` [rows, vocabulary]."""
        while self._warm and not _goes_on(history, self._warm[-1][0]):
            self._warm.pop()
        known, rows = self._warm[-1] if self._warm else ((), self._start)
        if isinstance(rows, TransformersRows):
            rows = rows.fork()
        else:
            # Rows that cannot be copied go on, or start again.
            rows = rows if self._warm else self._read()
            self._warm.clear()
        step = rows.extend(history[len(known) :])
        self._warm.append((history, rows))
        return rows_of(step)

    def score(self, history: Tokens, labels: Sequence[Tokens]) -> torch.Tensor:
        """Log-probabilities of continuations after ``history`` [rows, continuations]."""
        if not self._warm or self._warm[-1][0] != history:
            self.next(history)
        return rows_of(self._warm[-1][1].score(labels))


def _goes_on(history: Tokens, known: Tokens) -> bool:
    return len(known) < len(history) and history[: len(known)] == known


_Appended = tuple[tuple[int, ...], ...]
_Known = dict[Hashable, tuple[Rows, Step]]


class OneReading(WrappedModel[LanguageModel]):
    """Any language model, with the steps of the same inputs in the same order computed once.

    Unlike ``RememberingModel`` it computes a row anew in every company, so what others do to a row
    is seen.
    """

    def __init__(self, model: LanguageModel) -> None:
        super().__init__(model)
        self._known: _Known = {}

    def _wrapping(self, model: LanguageModel) -> OneReading:
        return OneReading(model)

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> Rows:
        """Rows that are read when the first step is asked for that is not known."""

        def fresh() -> Rows:
            return self._model.read(prefix, inputs, room=room, on_progress=on_progress)

        return _KnownRows(self._known, (tuple(prefix), tuple(inputs), room), fresh)


class _KnownRows:
    def __init__(self, known: _Known, company: Hashable, fresh: Callable[[], Rows]) -> None:
        self._known = known
        self._company = company
        self._fresh = fresh
        self._appended: _Appended = ()

    def extend(self, token_ids: Sequence[int]) -> Step:
        self._appended = (*self._appended, tuple(token_ids))
        key = (self._company, self._appended)
        if key not in self._known:
            rows = self._fresh()
            for own in self._appended:
                step = rows.extend(own)
            self._known[key] = rows, step
        return self._known[key][1]

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        rows, _ = self._known[self._company, self._appended]
        return rows.score(continuations)
