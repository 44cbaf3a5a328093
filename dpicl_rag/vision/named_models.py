"""Models of images by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpicl_rag.vision.base import VisionModel

Maker = Callable[[str | None], "VisionModel"]
"""Makes a model, with the language model that the caller names for reading words, if any."""

_NAMED: dict[str, Maker] = {}


def name_vision_model(name: str, make: Maker) -> None:
    """Let a name stand for a model that is neither a folder nor on Hugging Face.

    Args:
        name: What callers give; it goes before a folder of that name.
        make: See `Maker`. It is called when the model is asked for, and imports what it needs.
    """
    _NAMED[name] = make


def load_vision_model(name: str | Path, language_model: str | None = None) -> VisionModel:
    """A model of images by name.

    Args:
        name: The folder or the Hugging Face id of a vision-language model of transformers; or a
            name that `name_vision_model` was told.
        language_model: What such a named model reads words with; the packaged default where it is
            None.

    Raises:
        MissingDependencyError: A package of the extra ``images`` is not installed.
        ModelError: The model cannot be loaded.
    """
    if (make := _NAMED.get(str(name))) is not None:
        return make(language_model)
    from dpicl_rag.vision.vision_language import VisionLanguageModel

    return VisionLanguageModel.load(name)
