"""A language model around another, for tests that watch it or make it fail."""

from __future__ import annotations

from typing import Any, Self

from dpicl_rag.language_models.base import speaks


class Around:
    """Does all that the model does; subclasses change one thing.

    Args:
        model: The model that does the work.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def speaks(self) -> bool:
        """As the model; a protocol does not see what ``__getattr__`` would give."""
        return speaks(self._model)

    def copying(self, bias: float, *, public: bool = False) -> Self:
        """Itself, around a model with the preference."""
        self._model = self._model.copying(bias, public=public)
        return self

    def single_row(self) -> Self:
        """Itself: one row alone is watched like others."""
        return self
