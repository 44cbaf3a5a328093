"""What a caller may name as a model of images."""

from __future__ import annotations

from pathlib import Path

from dpicl_rag.vision.base import VisionModel

PROTOTYPE, WORDS = "vision-prototype", "vision-words"


def load_vision_model(name: str | Path, language_model: str | None = None) -> VisionModel:
    """A model of images by name.

    Args:
        name: ``vision-prototype`` or ``vision-words``, the stand-ins; else the folder or the
            Hugging Face id of a vision-language model of transformers.
        language_model: What reads the words of ``vision-words``; the packaged default where it is
            None.

    Raises:
        MissingDependencyError: A package of the extra ``images`` is not installed.
        ModelError: The model cannot be loaded.
    """
    if name == PROTOTYPE:
        from dpicl_rag.vision.prototype import VisionPrototype

        return VisionPrototype()
    if name == WORDS:
        from dpicl_rag.vision.class_words import VisionWords

        return VisionWords(language_model)
    from dpicl_rag.vision.vision_language import VisionLanguageModel

    return VisionLanguageModel.load(name)
