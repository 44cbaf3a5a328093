"""Labels from private images: pictures, models that read them, and one private draw."""

from dpicl_rag.vision.base import Example, VisionModel
from dpicl_rag.vision.classify import classify_image
from dpicl_rag.vision.load import load_vision_model
from dpicl_rag.vision.prototype import VisionPrototype
from dpicl_rag.vision.transformers import VisionLanguageModel
from dpicl_rag.vision.words import VisionWords

__all__ = [
    "Example",
    "VisionLanguageModel",
    "VisionModel",
    "VisionPrototype",
    "VisionWords",
    "classify_image",
    "load_vision_model",
]
