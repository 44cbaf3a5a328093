"""What a caller may give as a language model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl_rag.language_models.base import LanguageModel

if TYPE_CHECKING:
    from dpicl_rag.language_models.prefix_cache import PrefixCache

Given = str | Path | tuple[Any, Any] | LanguageModel | None


def load_language_model(model: Given, cache: PrefixCache | None = None) -> LanguageModel:
    """As `load_model`, beside a cache.

    Args:
        model: As there.
        cache: Where a model of transformers keeps documents it has read; by default where it did
            before, or in memory.

    Raises:
        ModelError: It cannot be loaded.
    """
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.language_models.transformers import TransformersModel

    found = load_model(model)
    if isinstance(found, TransformersModel) and (cache is not None or found.cache is None):
        return found.with_cache(cache or PrefixCache())
    return found


def load_model(model: Given) -> LanguageModel:
    """A language model from an id, a folder, a loaded pair, itself, or nothing.

    Args:
        model: A Hugging Face id, a local folder, a ``(model, tokenizer)`` pair of transformers, an
            object with the ``LanguageModel`` protocol, or None for the packaged default.

    Raises:
        ModelError: It cannot be loaded.
    """
    from dpicl_rag.language_models.defaults import default_model
    from dpicl_rag.language_models.transformers import TransformersModel

    if model is None:
        return default_model()
    if isinstance(model, (str, Path)):
        return TransformersModel.load(model)
    return TransformersModel(*model) if isinstance(model, tuple) else model
