"""A language model around another, with the attributes of that one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Self, TypeVar

from dpicl_rag.language_models.base import Copying, Input, LanguageModel

M = TypeVar("M", bound=LanguageModel)


class WrappedModel(ABC, Generic[M]):
    """Base of models that read in a way of their own what another model digests.

    Args:
        model: The model that does the work.
    """

    def __init__(self, model: M) -> None:
        self.tokenizer = model.tokenizer
        self.fingerprint = model.fingerprint
        self.context_length = model.context_length
        self._model = model
        self._copies: dict[tuple[float, bool], Self] = {}

    def copying(self, bias: float, *, public: bool = False) -> Self:
        """As the model does; what one bias reads is kept apart."""
        model: LanguageModel = self._model
        if not isinstance(model, Copying):
            return self
        way = bias, public
        if way not in self._copies:
            self._copies[way] = self._wrapping(model.copying(bias, public=public))
        return self._copies[way]

    @abstractmethod
    def _wrapping(self, model: LanguageModel) -> Self:
        """Its like, around another model."""

    def digest(self, passages: Sequence[str], most: int) -> Input:
        """As the model does."""
        return self._model.digest(passages, most)
