"""What a caller may give as a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpicl_rag.language_models.base import LanguageModel


def load_language_model(
    model: str | Path | tuple[Any, Any] | LanguageModel | None,
) -> LanguageModel:
    """A language model from an id, a folder, a loaded pair, itself, or nothing.

    Args:
        model: A Hugging Face id, a local folder, a ``(model, tokenizer)`` pair of transformers, an
            object with the ``LanguageModel`` protocol, or None for the packaged default.

    Raises:
        ModelError: It cannot be loaded.
    """
    from dpicl_rag.language_models.transformers import TransformersModel

    if model is None:
        from dpicl_rag.language_models.defaults import default_model

        return default_model()
    if isinstance(model, (str, Path)):
        return TransformersModel.load(model)
    if isinstance(model, tuple):
        return TransformersModel(*model)
    return model
