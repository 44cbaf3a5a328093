"""Hugging Face transformers models as rows of log-probabilities."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from dpicl_rag.errors import ConfigurationError, ContextLengthError, ModelError
from dpicl_rag.language_models import shared_prefix
from dpicl_rag.language_models.base import Input, Progress
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.rows import SharingError, TransformersRows
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer
from dpicl_rag.mechanisms.randomness import NotPrivateWarning

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class TransformersModel:
    """A causal language model from transformers, with its tokenizer.

    Args:
        model: A loaded causal language model.
        tokenizer: Its tokenizer.
        cache: Where keys and values of documents are kept from one question to the next; None
            keeps none.

    Attributes:
        tokenizer: See ``LanguageModel``.
        context_length: Most tokens that one row may hold.

    Raises:
        ModelError: The model keeps a state that is not keys and values per token.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        cache: PrefixCache | None = None,
    ) -> None:
        if model.dtype in (torch.bfloat16, torch.float16):
            warnings.warn(
                "weights of 16 bits: one document's arrival moves the predictions of the others "
                "by rounding alone, which no charge covers; load the model in float32",
                NotPrivateWarning,
                stacklevel=2,
            )
        self._model = model.eval()
        self.tokenizer = HuggingFaceTokenizer(tokenizer, getattr(model, "generation_config", None))
        config = model.config.get_text_config(decoder=True)
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        unsupported = kinds - {"full_attention", "sliding_attention", "chunked_attention"}
        if unsupported:
            raise ModelError(
                f"models with {', '.join(sorted(unsupported))} layers are not supported: their "
                "state cannot be kept per token; use a model with attention layers only"
            )
        windowed = kinds != {"full_attention"} or bool(
            getattr(config, "sliding_window", None)  # Mistral sets it without naming layer types
        )
        # A sliding window counts slots, so no row may have a gap before its own tokens.
        self._shares = not windowed and shared_prefix.install(self._model)
        self.cache = cache
        self._depth = int(config.num_hidden_layers)
        self.context_length = int(getattr(config, "max_position_embeddings", 0) or 1 << 20)

    def with_cache(self, cache: PrefixCache) -> TransformersModel:
        """The same weights and tokenizer beside another cache."""
        other = copy.copy(self)
        other.cache, other.fingerprint = cache, self.fingerprint
        return other

    @classmethod
    def load(cls, model: str | Path, *, device: str | None = None) -> TransformersModel:
        """Load a model and its tokenizer from a Hugging Face id or a local folder.

        Raises:
            ModelError: It cannot be found or read.
        """
        import transformers

        place = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(model))
            # float32 on a GPU too: in bfloat16 a row moves visibly when another joins its batch.
            loaded = transformers.AutoModelForCausalLM.from_pretrained(
                str(model), dtype=torch.float32
            )
        except Exception as error:
            raise ModelError(
                f"cannot load the model {str(model)!r} ({type(error).__name__}): give a Hugging "
                "Face id that can be reached from here, a folder with a saved model, or leave "
                "the model out for the packaged default"
            ) from error
        return cls(loaded.to(place), tokenizer)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the configuration, the dtype, the vocabulary and a sample of the weights."""
        digest = hashlib.sha256()
        digest.update(self._model.config.to_json_string().encode())
        digest.update(str(sorted(self.tokenizer.vocabulary.items())).encode())
        for name, weight in self._model.named_parameters():
            sample = weight.detach().flatten()[:64].float().cpu()
            digest.update(f"{name}{tuple(weight.shape)}{weight.dtype}".encode())
            digest.update(sample.numpy().tobytes())
        return digest.hexdigest()

    def digest(self, passages: Sequence[str], most: int) -> tuple[int, ...]:
        """Token ids of passages, the earliest first, at most ``most``; none for no text."""
        ids: list[int] = []
        for passage in passages:
            own = f"\n\n{passage}" if ids else passage
            ids += self.tokenizer.encode_start(own, most - len(ids))
        return tuple(ids)

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> TransformersRows:
        """Read ``prefix + input`` for every row and keep keys and values.

        Inputs are non-empty tuples of token ids; see ``LanguageModel.read``.

        Raises:
            ContextLengthError: The longest row and the room exceed the context.
            ModelError: There is not enough memory.
        """
        head, own = tuple(prefix), cast("Sequence[tuple[int, ...]]", inputs)
        if not own or not all(own):
            raise ConfigurationError("every row needs a document of at least one token")
        if len(head) + max(map(len, own)) + room > self.context_length:
            raise ContextLengthError(
                "the prompt and the answer do not fit the model's context of "
                f"{self.context_length} tokens; shorten the question or lower max_tokens"
            )
        rows = partial(
            TransformersRows,
            self._model,
            self._depth,
            room=room,
            cache=self.cache,
            fingerprint=self.fingerprint,
            on_progress=on_progress,
        )
        if self._shares:
            try:
                return rows(head, own)
            except SharingError:
                self._shares = False
        return rows((), [head + row for row in own])
