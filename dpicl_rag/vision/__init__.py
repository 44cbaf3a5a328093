"""Labels from private images: pictures, models that read them, and one private draw.

Names are imported when first used, so that ``import dpicl_rag.vision`` loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpicl_rag._packaged import importing

if TYPE_CHECKING:
    from dpicl_rag.vision.base import Example, VisionModel
    from dpicl_rag.vision.classify import classify_image
    from dpicl_rag.vision.named_models import load_vision_model, name_vision_model
    from dpicl_rag.vision.vision_language import VisionLanguageModel

__getattr__, __dir__ = importing(__name__)

__all__ = [
    "Example",
    "VisionLanguageModel",
    "VisionModel",
    "classify_image",
    "load_vision_model",
    "name_vision_model",
]
