"""An engine that does not answer from some call on, for tests of what becomes of an answer."""

from __future__ import annotations

from typing import Any

from dpicl_rag.errors import EngineUnavailableError
from tests.support.around import Around


class FailingEngine(Around):
    """Answers a number of calls, and then no more.

    Args:
        model: The model that does the work.
        calls: How many calls of rows are answered; reading is one too.
    """

    def __init__(self, model: Any, calls: int) -> None:
        super().__init__(model)
        self.left = calls

    def read(self, *arguments: Any, **options: Any) -> FailingRows:
        self.count()
        return FailingRows(self, self._model.read(*arguments, **options))

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise EngineUnavailableError


class FailingRows:
    """Rows that count their calls."""

    def __init__(self, engine: FailingEngine, rows: Any) -> None:
        self._engine, self._rows = engine, rows

    def extend(self, token_ids: Any) -> Any:
        self._engine.count()
        return self._rows.extend(token_ids)

    def extend_each(self, token_ids: Any, keep: int) -> Any:
        self._engine.count()
        return self._rows.extend_each(token_ids, keep)

    def continue_each(self, token_ids: Any, most: int, asked: Any) -> Any:
        self._engine.count()
        return self._rows.continue_each(token_ids, most, asked)

    def score(self, continuations: Any) -> Any:
        self._engine.count()
        return self._rows.score(continuations)

    def rewind(self, tokens: int) -> None:
        self._rows.rewind(tokens)
