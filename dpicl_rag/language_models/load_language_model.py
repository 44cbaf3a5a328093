"""Loading of a language model from what a caller gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel

if TYPE_CHECKING:
    from dpicl_rag.language_models.prefix_cache import PrefixCache


def load_language_model(
    model: str | Path | tuple[Any, Any] | LanguageModel | None, cache: PrefixCache | None = None
) -> LanguageModel:
    """A language model from an id, a folder, an address, a loaded pair, itself, or nothing.

    Args:
        model: A Hugging Face id, ``small``, ``medium`` or ``large``, a local folder, the address
            of a server (``openai+http://127.0.0.1:8000/v1#model``), a ``(model, tokenizer)`` pair
            of transformers, an object with the ``LanguageModel`` protocol, or None for the default.
        cache: Where a model of transformers keeps documents it has read; by default where it did
            before, or in memory.

    Raises:
        ConfigurationError: ``model`` is none of these, or the name of a chat API.
        ModelError: It cannot be loaded.
    """
    from dpicl_rag.language_models.defaults import default_model
    from dpicl_rag.language_models.openai_compatible.server_address import Address
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.language_models.transformers import TransformersModel

    if model is None:
        model = default_model()
    elif isinstance(model, str) and Address.meant(model):
        from dpicl_rag.language_models.openai_compatible.openai_model import OpenAICompatibleModel

        model = OpenAICompatibleModel(model)
    elif isinstance(model, (str, Path)):
        model = TransformersModel.load(model)
    elif isinstance(model, tuple) and len(model) == 2:
        model = TransformersModel(*model)
    if isinstance(model, TransformersModel) and (cache is not None or model.cache is None):
        return model.with_cache(cache or PrefixCache())
    if not hasattr(model, "digest"):
        raise ConfigurationError("give a model id, a folder, or a (model, tokenizer) pair")
    return model
