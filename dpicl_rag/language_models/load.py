"""What a caller may give as a language model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel

if TYPE_CHECKING:
    from dpicl_rag.language_models.prefix_cache import PrefixCache

Given = str | Path | tuple[Any, Any] | LanguageModel | None


def load_language_model(model: Given, cache: PrefixCache | None = None) -> LanguageModel:
    """As `load_model`; a model of transformers keeps documents it has read in a cache.

    By default it is the cache that the model had before, or one in memory.
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
        ConfigurationError: It is none of these.
        ModelError: It cannot be loaded.
    """
    from dpicl_rag.language_models.defaults import default_model
    from dpicl_rag.language_models.transformers import TransformersModel

    if model is None:
        return default_model()
    if isinstance(model, (str, Path)):
        return TransformersModel.load(model)
    if isinstance(model, tuple) and len(model) == 2:
        return TransformersModel(*model)
    if not hasattr(model, "digest"):
        raise ConfigurationError("give a model id, a folder, or a (model, tokenizer) pair")
    return model
