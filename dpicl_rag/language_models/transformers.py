"""Hugging Face transformers models as rows of log-probabilities."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch

from dpicl_rag import weights
from dpicl_rag._context_variables import holding
from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.language_models import probe
from dpicl_rag.language_models.attention import own_attention
from dpicl_rag.language_models.base import Input, Progress, Tenths
from dpicl_rag.language_models.converted_models import SMALL
from dpicl_rag.language_models.copy_bias import CopyBias, copy_bias_of
from dpicl_rag.language_models.hardware import (
    NotEnoughMemoryError,
    ProbeResults,
    enough_memory,
    faster_dtype,
    machine,
    on_this_machine,
)
from dpicl_rag.language_models.packed_rows import PackedRows, SingleRow
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.separate_rows import SeparateRows
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer, require_room
from dpicl_rag.language_models.transformers_rows import (
    CachedStates,
    Tokens,
    TransformersRows,
    shared_pass,
)
from dpicl_rag.language_models.turns import undisturbed

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

# Instruction models under Apache-2.0 that need no account, of 4 and 7.6 billion parameters. `SMALL`
# has 1.5.
SIZES = {
    "medium": ("Qwen/Qwen3-4B-Instruct-2507", "cdbee75f17c01a7cc42f958dc650907174af0554"),
    "large": ("Qwen/Qwen2.5-7B-Instruct", "a09a35458c702b33eeacc393d103063234e8bc28"),
}
# Models that are behind chat APIs alone, with and without their makers' names.
_CHAT_API = re.compile(
    r"((openai|azure|openrouter)[:/])*(gpt-[345]|chatgpt|o[1-9](-|$)|text-davinci)"
    r"|((anthropic|bedrock|openrouter)[:/])*claude-"
    r"|((google|google_genai|vertexai|openrouter)[:/])*gemini-"
    r"|(grok-|mistral-(small|medium|large)|command-|deepseek-(chat|reasoner)$)",
    re.IGNORECASE,
)

RowsClass = type[PackedRows] | type[SeparateRows]
"""A class of rows: sharing passes, or one at a time."""


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
        self.cache = cache
        self._depth = int(config.num_hidden_layers)
        self._vocabulary = int(config.vocab_size)
        self._probe_results = ProbeResults()
        self._copy_bias, self._public_copies = 0.0, False
        self._single_row = False
        self.context_length = context_length_of(config)

    @property
    def speaks(self) -> bool:
        """Its rows can go on each by itself, see ``Speaking``."""
        return True

    def with_cache(self, cache: PrefixCache | None) -> TransformersModel:
        """The same weights and tokenizer beside another cache.

        Warns:
            ReadAnewWarning: What a folder keeps was read in other circumstances.
        """
        other = self._but(cache=cache)
        other._here(cache)
        return other

    def single_row(self) -> TransformersModel:
        """The same weights, tokenizer and cache; see `SingleRowModel` and `SingleRow`."""
        return self._but(_single_row=True)

    def copying(self, bias: float, *, public: bool = False) -> TransformersModel:
        """The same weights, tokenizer and cache; see ``Copying``.

        What documents leave in the cache does not depend on it.
        """
        return self._but(_copy_bias=bias, _public_copies=public)

    def _but(self, **changed: Any) -> TransformersModel:
        """The same with other attributes; its weights are hashed once."""
        other = copy.copy(self)
        vars(other).update(changed, fingerprint=self.fingerprint)
        return other

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        device: str | None = None,
        dtype: Literal["float32", "bfloat16"] | None = None,
    ) -> TransformersModel:
        """Load a model and its tokenizer from a Hugging Face id or a local folder.

        Args:
            model: The id, the folder, or one of the sizes ``small``, ``medium`` and ``large``; see
                `SIZES` and `SMALL`.
            device: Torch device; a GPU if there is one.
            dtype: Of weights, keys and values; by default 16 bits where the hardware is faster
                with them.

        Raises:
            ConfigurationError: The name is that of a chat API.
            ModelError: It cannot be found or read.
        """
        import transformers

        named = located(model)
        source = {"revision": named.revision or "main", "local_files_only": named.offline}
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        kind = faster_dtype(place) if dtype is None else getattr(torch, dtype)
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(named.place, **source)
            loaded = transformers.AutoModelForCausalLM.from_pretrained(
                named.place, dtype=kind, **source
            )
        except Exception as error:
            raise ModelError(
                f"cannot load the model {str(model)!r} ({type(error).__name__}): give a Hugging "
                "Face id that can be reached from here, a folder with a saved model, or leave "
                "the model out for the packaged default"
            ) from error
        found = cls(loaded.to(place), tokenizer)
        found._probe_results = on_this_machine()
        return found

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the configuration, the dtype, the vocabulary and a sample of the weights."""
        digest = hashlib.sha256()
        digest.update(self._model.config.to_json_string().encode())
        digest.update(str(sorted(self.tokenizer.vocabulary.items())).encode())
        for part in sample_of_weights(self._model):
            digest.update(part)
        return digest.hexdigest()

    def digest(self, passages: Sequence[str], most: int) -> tuple[int, ...]:
        """Token ids of passages, the earliest first, at most ``most``; none for no text."""
        return self.tokenizer.encode_passages(passages, most)

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
            ConfigurationError: More rows than one, of a model that reads a `single_row`.
            ContextLengthError: The longest row and the room exceed the context.
            ModelError: There is not enough memory.
        """
        head, own = tuple(prefix), cast("Sequence[tuple[int, ...]]", inputs)
        require_room(head, own, room, self.context_length)
        advance = Tenths(sum(map(len, own)), on_progress)
        if self._single_row and len(own) != 1:
            # An expert's bits would follow from how many others there are.
            raise ConfigurationError("a model that reads one row alone was given several")
        packed = SingleRow if self._single_row else PackedRows
        kind = packed if self.shares_passes() else SeparateRows
        way = self._copy_bias, self._public_copies
        bias = copy_bias_of(*way, own, self.tokenizer, self._model.device)
        return self._read(kind, head, own, room, self.cache, advance, bias)

    def _read(
        self,
        kind: RowsClass,
        prefix: Tokens,
        inputs: Sequence[Tokens],
        room: int,
        cache: PrefixCache | None = None,
        advance: Callable[[int], None] = lambda _: None,
        copy_bias: CopyBias | None = None,
    ) -> TransformersRows:
        cached = CachedStates(
            cache, f"{self.fingerprint} {kind.version} {self._here(cache)}", prefix
        )
        batch = kind(self._model, self._depth, prefix, inputs, room, cached, advance)
        return TransformersRows(batch, copy_bias, self.tokenizer.sentence_end)

    def _here(self, cache: PrefixCache | None = None) -> str:
        """All that decides bits now, in this thread; noted in a cache."""
        found = machine(self._model.device)
        if cache is not None:
            cache.used_on(found)
        return found

    def shares_passes(self) -> bool:
        """True where rows may share passes; else they are read one at a time.

        Raises:
            ModelError: They are not right then either.
        """
        if self._holds(PackedRows, probe.rows_are_their_own, "rows keep every bit in company"):
            return True
        if not self._holds(SeparateRows, probe.rows_are_right, "rows are right one at a time"):
            raise ModelError(
                "this model does not predict token by token from keys and values that were kept, "
                "or its quantisation changes with what it reads; use a causal language model with "
                "attention layers, in float32 or 16 bits"
            )
        return False

    def _holds(self, kind: RowsClass, attempt: probe.Attempt, claim: str) -> bool:
        """Success of an attempt on this machine; tried once."""
        key = f"{self.fingerprint} {kind.version} {probe.VERSION} {self._here()}"
        name, place = Path(self._model.name_or_path).name, self._model.device
        way = f"{self._model.dtype}, {place}, {torch.get_num_threads()} threads"
        words = f"{name or 'unnamed'}: {claim} ({way}, torch {torch.__version__})"
        return self._probe_results.holds(key, lambda: self._try(kind, attempt), words)

    def _try(self, kind: RowsClass, attempt: probe.Attempt) -> bool:
        def read(prefix: Tokens, inputs: Sequence[Tokens]) -> TransformersRows:
            return self._read(kind, prefix, inputs, probe.ROOM)

        def forward(token_ids: Tokens) -> torch.Tensor:
            ids = torch.tensor([list(token_ids)], device=self._model.device)
            with own_attention(self._model), torch.inference_mode():
                logits = self._model(input_ids=ids, use_cache=False).logits
            return torch.log_softmax(logits[0, -1].float(), dim=-1)

        try:
            # Documents of the probe share passes with no answer.
            with holding(shared_pass, None), enough_memory(), undisturbed():
                return attempt(read, forward, self._vocabulary, self.context_length)
        except NotEnoughMemoryError:
            raise
        except Exception:
            # A model that masks, caches or calls its layers in a way of its own can tell us so by
            # any error.
            return False


def sample_of_weights(model: PreTrainedModel) -> Iterator[bytes]:
    """Names, shapes and dtypes of a model's weights, and the first 64 numbers of each."""
    for name, weight in model.named_parameters():
        yield f"{name}{tuple(weight.shape)}{weight.dtype}".encode()
        yield weight.detach().flatten()[:64].float().cpu().numpy().tobytes()


def context_length_of(config: PretrainedConfig) -> int:
    """Most tokens of a row whose rotary factors do not follow from other rows.

    Some models change the factors of all tokens of a pass when the longest row passes a limit
    (longrope, dynamic NTK). No row may pass it.
    """
    found = int(getattr(config, "max_position_embeddings", 0) or 1 << 20)
    rope = getattr(config, "rope_parameters", None) or {}
    for one in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        if one.get("rope_type") in ("longrope", "dynamic"):
            limit = one.get("original_max_position_embeddings")
            limit = limit or getattr(config, "original_max_position_embeddings", None) or found
            found = min(found, int(limit) - 1)
    return found


@dataclass(frozen=True, slots=True)
class Named:
    """The place of a model for its loader.

    Attributes:
        place: Folder, or id on the hub.
        revision: Of the id; its newest if None.
        offline: Whether the hub is left alone.
    """

    place: str
    revision: str | None = None
    offline: bool = True


def located(name: str | Path) -> Named:
    """The place of a language model, found out in seconds; of ``small``, once it is here.

    A text that is a size means that size, even where a folder is called so: ``./small`` is the
    folder.

    Raises:
        ConfigurationError: The name is that of a chat API.
        ModelError: There is no such model, or it is out of reach.
    """
    if name == "small":
        return Named(str(SMALL.folder()))
    place, revision = (name, None) if isinstance(name, Path) else SIZES.get(name, (name, None))
    folder = Path(place).expanduser()
    if revision is None and folder.exists():
        return Named(str(folder))
    if _CHAT_API.match(str(place)):
        raise ConfigurationError(
            f"{place} is behind a chat API, which gives no log-probabilities of a prompt, and the "
            "experts vote with those: name a model that runs here, such as small or "
            "Qwen/Qwen2.5-7B-Instruct, or a server that gives them, openai+http://HOST:PORT/v1"
        )
    if isinstance(place, Path) or place.startswith((".", "~")) or folder.is_absolute():
        raise ModelError(f"no model at {place}: give a folder with a saved model, or an id")
    return Named(place, revision, offline=not weights.answers_for(place, revision))
