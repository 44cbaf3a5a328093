"""Hugging Face transformers models as rows of log-probabilities."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from dpicl_rag.errors import ConfigurationError, ContextLengthError, ModelError
from dpicl_rag.language_models import shared_prefix
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.rows import SharingError, TransformersRows
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
        self._tokenizer = tokenizer
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
        self._vocabulary = int(config.vocab_size)
        self._context = int(getattr(config, "max_position_embeddings", 0) or 1 << 20)
        self._name = str(getattr(config, "_name_or_path", "") or type(model).__name__)
        self._fingerprint: str | None = None

    def with_cache(self, cache: PrefixCache) -> TransformersModel:
        """The same weights and tokenizer beside another cache."""
        fingerprint = self.fingerprint
        other = copy.copy(self)
        other.cache, other._fingerprint = cache, fingerprint
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

    @property
    def fingerprint(self) -> str:
        """A hash of the configuration, the dtype, the vocabulary and a sample of the weights."""
        if self._fingerprint is None:
            digest = hashlib.sha256()
            digest.update(self._model.config.to_json_string().encode())
            digest.update(str(sorted(self._tokenizer.get_vocab().items())).encode())
            for name, weight in self._model.named_parameters():
                sample = weight.detach().flatten()[:64].float().cpu()
                digest.update(f"{name}{tuple(weight.shape)}{weight.dtype}".encode())
                digest.update(sample.numpy().tobytes())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    @property
    def vocabulary_size(self) -> int:
        """Number of columns of the log-probabilities."""
        return self._vocabulary

    @property
    def context_length(self) -> int:
        """Most tokens that one row may hold."""
        return self._context

    @property
    def stop_tokens(self) -> frozenset[int]:
        """The tokenizer's and the generation configuration's end tokens."""
        stop: set[int] = set()
        generation = getattr(self._model, "generation_config", None)
        for source in (self._tokenizer.eos_token_id, getattr(generation, "eos_token_id", None)):
            if isinstance(source, int):
                stop.add(source)
            elif source is not None:
                stop.update(source)
        return frozenset(stop)

    def encode(self, text: str) -> list[int]:
        """Tokens of ``text``; a control token spelled out in a document stays plain text.

        Half characters (lone surrogates) become question marks, so that no document can end an
        answer with an error.
        """
        ids: list[int] = self._tokenizer.encode(
            text.encode("utf-8", "replace").decode(),
            add_special_tokens=False,
            split_special_tokens=True,
        )
        return ids

    def encode_template(self, text: str) -> list[int]:
        """Tokens of public template text, control tokens included."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ``token_ids`` without control tokens."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def chat(self, messages: Sequence[dict[str, str]]) -> str | None:
        """The messages in the tokenizer's chat template, or None where it has none."""
        from jinja2 import TemplateError

        if not getattr(self._tokenizer, "chat_template", None):
            return None
        try:
            return self._render(messages)
        except TemplateError:
            # Some templates refuse a system role: its text then opens the first turn.
            system, first, *rest = messages
            joined = {**first, "content": f"{system['content']}\n\n{first['content']}"}
            return self._render([joined, *rest])

    def _render(self, messages: Sequence[dict[str, str]]) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True
            )
        )

    def prefix(
        self,
        common: Sequence[int],
        documents: Sequence[Sequence[int]],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> TransformersRows:
        """Read ``common + document`` for every row and keep keys and values.

        Args:
            common: Token ids that every row begins with; read once.
            documents: Token ids, one non-empty sequence per row; lengths may differ. The first
                is the public row's: it is read by itself, and what is kept of it with it.
            room: How many tokens will be appended to every row at most.
            on_progress: Told which part of the tokens is read.

        Raises:
            ContextLengthError: The longest row and the room exceed the context.
        """
        if not documents or not all(documents):
            raise ConfigurationError("every row needs a document of at least one token")
        head, own = list(common), [list(document) for document in documents]
        if len(head) + max(map(len, own)) + room > self._context:
            raise ContextLengthError(
                "the prompt and the answer do not fit the model's context of "
                f"{self._context} tokens; shorten the question or lower max_tokens"
            )
        if self._shares:
            try:
                return self._rows(head, own, room, on_progress)
            except SharingError:
                self._shares = False
        return self._rows([], [head + row for row in own], room, on_progress)

    def _rows(
        self, head: list[int], own: list[list[int]], room: int, on_progress: Progress | None
    ) -> TransformersRows:
        return TransformersRows(
            self._model,
            self._depth,
            head,
            own,
            room,
            cache=self.cache,
            fingerprint=self.fingerprint if self.cache is not None else "",
            on_progress=on_progress,
        )
