"""The stand-ins for a vision-language model, known by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpicl_rag.vision.named_models import name_vision_model

if TYPE_CHECKING:
    from dpicl_rag.vision.base import VisionModel


def register() -> None:
    """Let ``load_vision_model`` find ``vision-prototype`` and ``vision-words``."""
    name_vision_model("vision-prototype", _prototype)
    name_vision_model("vision-words", _words)


def _prototype(language_model: str | None) -> VisionModel:
    from dpicl_research.vision_prototype import VisionPrototype

    return VisionPrototype()


def _words(language_model: str | None) -> VisionModel:
    from dpicl_research.vision_words import VisionWords

    return VisionWords(language_model)
