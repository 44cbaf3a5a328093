"""A made-up model that draws when a test lets it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from dpicl_rag.auditing.worst_models import SyntheticModel, SyntheticRows

SIZE = 8
"""Tokens, ``a`` to ``h``. None ends an answer, so it has as many as it may."""


def agreed(text: str, history: tuple[int, ...]) -> list[float]:
    """Every document and the public row want the next letter, so that it is drawn for certain."""
    return [0.0 if token == len(history) % SIZE else -60.0 for token in range(SIZE)]


class PacedModel(SyntheticModel):
    """Every draw of an answer takes a permit.

    Args:
        open: Whether permits are without end.
        seconds: Sleeps that long in each draw.

    Attributes:
        drawn: The number of the answer that each draw was for, in order.
        begun: How many draws were asked for.
    """

    def __init__(self, open: bool = False, seconds: float = 0.0) -> None:
        super().__init__(SIZE, agreed)
        self.open, self.seconds = open, seconds
        self.permits = threading.Semaphore(0)
        self.drawn: list[int] = []
        self.begun = 0
        self._answers = 0

    def read(self, prefix: Sequence[int], inputs: Sequence[Any], **options: Any) -> PacedRows:
        self._answers += 1
        return PacedRows([str(text) for text in inputs], self._answers, self)

    def draw(self, number: int) -> None:
        self.begun += 1
        if not self.open:
            self.permits.acquire()
        time.sleep(self.seconds)
        self.drawn.append(number)

    def let(self, draws: int) -> None:
        """Give permits."""
        self.permits.release(draws)


class PacedRows(SyntheticRows):
    def __init__(self, texts: list[str], number: int, model: PacedModel) -> None:
        super().__init__(texts, agreed)
        self._number, self._model = number, model

    def extend(self, token_ids: Sequence[int]) -> Any:
        self._model.draw(self._number)
        return super().extend(token_ids)


class ReadingModel(PacedModel):
    """Tells seven parts of its reading, and takes a permit before each.

    Attributes:
        steps: Permits.
    """

    def __init__(self):
        super().__init__(open=True)
        self.steps = threading.Semaphore(0)

    def read(self, prefix, inputs, *, on_progress=None, **options):
        for part in range(8):
            self.steps.acquire()
            on_progress(part / 7, 1.0)
        return super().read(prefix, inputs, **options)
