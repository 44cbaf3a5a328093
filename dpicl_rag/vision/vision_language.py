"""Vision-language models of transformers, one row of one pass at a time; models by name."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dpicl_rag import _validate
from dpicl_rag._packaged import optional, without_bars
from dpicl_rag.errors import ConfigurationError, MissingDependencyError, ModelError
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer
from dpicl_rag.language_models.transformers import context_length_of, sample_of_weights
from dpicl_rag.prompts import label_tokens
from dpicl_rag.vision.base import Example, Picture

_SHOWN = "This is a {label}."
_ASKED = "This is a"


class VisionLanguageModel:
    """A model that reads images and text, such as Qwen2.5-VL, InternVL, LLaVA or SmolVLM.

    An expert reads its pictures with their names, then the query, in one prompt. Each label is one
    pass of the whole prompt, by itself: nothing is shared between rows, and nothing is kept.

    Args:
        model: An ``AutoModelForImageTextToText``, on its device.
        processor: Its ``AutoProcessor``.
        examples: Most examples that one expert reads, the first ones. Public; a prompt with so many
            must fit the model.
        side: Side of the pictures in pixels; the processor resizes them further. Public.

    Raises:
        ConfigurationError: A prompt with so many examples does not fit the model.
        MissingDependencyError: Pillow is not installed.
        ModelError: The processor or the model cannot be used in this way, or a row changes with
            what was read before it.
    """

    def __init__(self, model: Any, processor: Any, *, examples: int = 4, side: int = 448) -> None:
        pillow = optional("PIL.Image", "dpicl-rag[images]", "Pillow")
        self._examples = _validate.count("examples", examples)
        self.side = _validate.count("side", side)
        self._model = model.eval()
        self._processor = processor
        self._tokenizer = HuggingFaceTokenizer(processor.tokenizer, model.generation_config)
        self.fingerprint = self._fingerprint()
        grey = Picture(pillow.new("RGB", (side, side), (128, 128, 128)), "grey")
        white = Picture(pillow.new("RGB", (side, side), (255, 255, 255)), "white")
        try:
            with enough_memory():
                self._try(grey, white)
        except (ConfigurationError, ModelError):
            raise
        except Exception as error:
            raise ModelError(
                f"{type(model).__name__} cannot read pictures and text through "
                f"{type(processor).__name__} ({type(error).__name__}); give a model for "
                "image-text-to-text with its own processor"
            ) from error

    @classmethod
    def load(
        cls, model: str | Path, *, device: str | None = None, examples: int = 4, side: int = 448
    ) -> VisionLanguageModel:
        """Load a model and its processor from a local folder or a Hugging Face id.

        Args:
            model: The folder or the id.
            device: Torch device; a GPU if there is one.
            examples: See the class.
            side: See the class.

        Raises:
            MissingDependencyError: What prepares its pictures needs a package.
            ModelError: It cannot be found or read.
        """
        import transformers

        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        optional("PIL.Image", "dpicl-rag[images]", "Pillow")
        try:
            with without_bars():
                processor = load_processor(model)
                kind = transformers.AutoModelForImageTextToText
                loaded = kind.from_pretrained(str(model), dtype="auto").to(place)
        except MissingDependencyError:
            raise
        except Exception as error:
            raise ModelError(
                f"cannot load the vision-language model {str(model)!r} ({type(error).__name__}): "
                "give a folder with a saved model and its processor, or a Hugging Face id that can "
                "be reached from here"
            ) from error
        return cls(loaded, processor, examples=examples, side=side)

    def label_log_probs(
        self, examples: Sequence[Example], query: Picture, labels: Sequence[str]
    ) -> torch.Tensor:
        """The row of one expert, as `VisionModel` has it."""
        inputs = self._prompt(examples[: self._examples], query)
        with enough_memory(), torch.inference_mode():
            scores = [
                self._score(inputs, ids) for ids in label_tokens(self._tokenizer, labels, " ")
            ]
        return torch.log_softmax(torch.tensor(scores, dtype=torch.float64), dim=0)

    def _prompt(self, examples: Sequence[Example], query: Picture) -> dict[str, Any]:
        """The processor's tensors for pictures and words; a batch of one."""
        image = {"type": "image"}
        content: list[dict[str, str]] = []
        for example in examples:
            shown = {"type": "text", "text": _SHOWN.format(label=example.label)}
            content += [image, shown]
        content.append(image)
        if getattr(self._processor, "chat_template", None):
            question = "Which name has this one?"
            content.append({"type": "text", "text": question})
            text = self._processor.apply_chat_template(
                [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
            )
            text += _ASKED
        else:
            mark = self._processor.image_token
            text = "".join(f"{mark}\n{_SHOWN.format(label=e.label)}\n" for e in examples)
            text += f"{mark}\n{_ASKED}"
        pictures = [*(example.picture.image for example in examples), query.image]
        found = self._processor(text=[text], images=pictures, return_tensors="pt")
        return dict(found.to(self._model.device))

    def _score(self, inputs: dict[str, Any], label: Sequence[int]) -> float:
        """Log-probability of a label after the prompt, in a pass by itself."""
        own, ids = copy.copy(inputs), inputs["input_ids"]
        tokens = torch.tensor([list(label)], device=ids.device)
        for name, value in inputs.items():
            if torch.is_tensor(value) and value.shape == ids.shape:
                # Masks and kinds of tokens: words are attended to, and are no part of an image.
                more = int(name == "attention_mask")
                own[name] = torch.cat([value, torch.full_like(tokens, more).to(value)], dim=1)
        own["input_ids"] = torch.cat([ids, tokens], dim=1)
        with torch.autocast(ids.device.type, enabled=False):
            logits = self._model(**own, use_cache=False).logits
        start = ids.shape[1] - 1
        said = torch.log_softmax(logits[0, start : start + len(label)].double(), dim=-1)
        return float(said.gather(1, tokens.T).sum())

    def _try(self, grey: Picture, white: Picture) -> None:
        """Check that the longest prompt fits, and that what was read before moves no row."""
        most = [Example(grey, "dax")] * self._examples
        length = self._prompt(most, grey)["input_ids"].shape[1]
        context = context_length_of(self._model.config.get_text_config())
        if length + 32 > context:
            raise ConfigurationError(
                f"{self._examples} examples in one prompt need {length} tokens, and the model's "
                f"context holds {context}; lower examples or side"
            )
        names = ("dax", "blicket")
        before = self.label_log_probs((), grey, names)
        self.label_log_probs([*most[1:], Example(white, "blicket")], white, names)
        if not torch.equal(before, self.label_log_probs((), grey, names)):
            raise ModelError(
                "the model's rows change with what it has read before, so one document would move "
                "others; take another model, or run it on a CPU in float32"
            )

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(self._model.config.to_json_string().encode())
        for part in sample_of_weights(self._model):
            digest.update(part)
        return f"vision-language 1 {self._examples} {self.side} {digest.hexdigest()}"


def load_processor(model: str | Path) -> Any:
    """The ``AutoProcessor`` of a model.

    Qwen2.5-VL, InternVL and others have a processor for videos too, which needs torchvision. Nobody
    shows them a video here, so a machine without torchvision can read pictures all the same.
    Where it cannot be loaded for want of a package, the model's own processor of pictures and text
    is loaded without the part for videos. It prepares pictures in the same way.

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
