"""Labels from private images: pictures, models that read them, and one private draw."""

from dpicl_rag.vision.base import Example, VisionModel
from dpicl_rag.vision.class_words import VisionWords
from dpicl_rag.vision.classify import classify_image
from dpicl_rag.vision.load_vision_model import load_vision_model
from dpicl_rag.vision.prototype import VisionPrototype
from dpicl_rag.vision.vision_language import VisionLanguageModel

__all__ = [
    "Example",
    "VisionLanguageModel",
    "VisionModel",
    "VisionPrototype",
    "VisionWords",
    "classify_image",
    "load_vision_model",
]
