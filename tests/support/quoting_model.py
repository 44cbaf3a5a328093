"""Tiny models that fail over a secret document: one quotes it wherever it can, one dies of it."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Any

from tests.support.around import Around
from tests.support.tiny_model import build_tiny_model

SECRET = "quillon-vexatrix-8841907"


def build_quoting_model() -> QuotingModel:
    return QuotingModel(build_tiny_model())


def build_dying_model() -> DyingModel:
    return DyingModel(build_tiny_model())


class QuotingModel(Around):
    """Reads like the tiny model, but for the secret."""

    def read(self, prefix: Any, inputs: Any, **options: Any) -> Any:
        text = self._model.tokenizer.decode([token for own in inputs for token in own])
        if SECRET in text:
            sys.stdout.write(f"{text}\n")
            os.write(2, text.encode())
            logging.getLogger("quoting").error(text)
            warnings.warn(text, stacklevel=1)
            raise ValueError(text)
        return self._model.read(prefix, inputs, **options)


class DyingModel(Around):
    """Reads like the tiny model, but the secret ends the process."""

    def read(self, prefix: Any, inputs: Any, **options: Any) -> Any:
        if SECRET in self._model.tokenizer.decode([token for own in inputs for token in own]):
            os._exit(1)
        return self._model.read(prefix, inputs, **options)
