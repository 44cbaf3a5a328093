"""A language model that reads each company of documents once, so that many mechanisms can draw."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from dpicl_rag.language_models.base import Input, LanguageModel, Progress, Rows, WrappedModel
from dpicl_rag.mechanisms.step import Step

_Appended = tuple[tuple[int, ...], ...]
_Known = dict[Hashable, tuple[Rows, Step]]


class OneReading(WrappedModel[LanguageModel]):
    """Any language model, with the steps of the same inputs in the same order computed once.

    Unlike ``RememberingModel`` it computes a row anew in every company, so what others do to a row
    is seen.

    Args:
        model: The language model.
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
