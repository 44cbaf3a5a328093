"""The processor of a vision-language model, of pictures and text alone where videos need more.

Qwen2.5-VL, InternVL and others have a processor for videos too, which needs torchvision. Here
nobody shows them a video, so a machine without torchvision can read pictures with them all the
same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpicl_rag.errors import MissingDependencyError


def load_processor(model: str | Path) -> Any:
    """The ``AutoProcessor`` of a model.

    Where it cannot be loaded for want of a package, the model's own processor of pictures and text
    is loaded without the part for videos. It prepares pictures in the same way.

    Args:
        model: The folder or the Hugging Face id.

    Raises:
        MissingDependencyError: What prepares its pictures needs a package too.
        OSError: There is no such model.
        ValueError: Its files are none of a processor.
    """
    import transformers

    try:
        return transformers.AutoProcessor.from_pretrained(str(model))
    except (ImportError, ValueError) as refused:  # transformers says it in both ways
        try:
            return _without_videos(str(model))
        except Exception:
            if isinstance(refused, ValueError):
                raise refused from None
            raise MissingDependencyError(
                f"the processor of {str(model)!r} needs a package that is not installed; most "
                "often it is torchvision, in the version that belongs to your torch"
            ) from refused


def _without_videos(model: str) -> Any:
    from transformers import AutoConfig
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    whole: Any = PROCESSOR_MAPPING[type(AutoConfig.from_pretrained(model))]

    def parts() -> list[str]:
        # In the order of its constructor; a processor in which videos come before is refused by it.
        return ["image_processor", "tokenizer"]

    kind: Any = type(whole.__name__, (whole,), {"get_attributes": staticmethod(parts)})
    return kind.from_pretrained(model)
