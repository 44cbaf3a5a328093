"""A tiny model that fails over a secret document, and quotes it wherever it can."""

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
