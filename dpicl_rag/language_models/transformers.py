"""Hugging Face transformers models as rows of log-probabilities."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from dpicl_rag.errors import ConfigurationError, ContextLengthError, ModelError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.key_value_cache import KeyValueCache

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Tokens of one forward pass while prompts are read. Larger passes are no faster on a CPU and
# their activations grow with it.
_PASS_TOKENS = 2048


class TransformersModel:
    """A causal language model from transformers, with its tokenizer.

    Args:
        model: A loaded causal language model.
        tokenizer: Its tokenizer.

    Raises:
        ModelError: The model keeps a state that is not keys and values per token.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
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
        self._depth = int(config.num_hidden_layers)
        self._vocabulary = int(config.vocab_size)
        self._context = int(getattr(config, "max_position_embeddings", 0) or 1 << 20)
        self._name = str(getattr(config, "_name_or_path", "") or type(model).__name__)
        self._fingerprint: str | None = None

    @classmethod
    def load(cls, model: str | Path, *, device: str | None = None) -> TransformersModel:
        """Load a model and its tokenizer from a Hugging Face id or a local folder.

        Raises:
            ModelError: It cannot be found or read.
        """
        import transformers

        place = device or ("cuda" if torch.cuda.is_available() else "cpu")
        # bfloat16 halves memory traffic on a GPU; CPUs without its instructions crawl with it.
        dtype = torch.bfloat16 if place.startswith("cuda") else torch.float32
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(model))
            loaded = transformers.AutoModelForCausalLM.from_pretrained(str(model), dtype=dtype)
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
        """Tokens of ``text``; a control token spelled out in a document stays plain text."""
        ids: list[int] = self._tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
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
        prompts: Sequence[Sequence[int]],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> TransformersRows:
        """Run one prompt per row and keep its keys and values.

        Args:
            prompts: Token ids, one non-empty sequence per row; lengths may differ.
            room: How many tokens will be appended to every row at most.
            on_progress: Told which part of the tokens is read.

        Raises:
            ContextLengthError: The longest prompt and the room exceed the context.
        """
        rows = TransformersRows(
            self._model, self._depth, [list(prompt) for prompt in prompts], room, self._context
        )
        rows.fill(on_progress)
        return rows


class TransformersRows:
    """The running batch: one key-value cache, right-aligned prompts."""

    def __init__(
        self,
        model: PreTrainedModel,
        depth: int,
        prompts: list[list[int]],
        room: int,
        context: int,
    ) -> None:
        if not prompts or not all(prompts):
            raise ConfigurationError("every row needs a prompt of at least one token")
        self._model = model
        self._prompts = prompts
        self._device = model.device
        longest = max(map(len, prompts))
        if longest + room > context:
            raise ContextLengthError(
                "the prompt and the answer do not fit the model's context of "
                f"{context} tokens; shorten the question or lower max_tokens"
            )
        self._lengths = torch.tensor([len(p) for p in prompts], device=self._device)
        self._start = longest - self._lengths  # first slot in use, per row
        self._used = longest
        self._longest = longest
        self._cache = KeyValueCache(len(prompts), longest + room, depth)
        self._next: torch.Tensor | None = None

    @torch.inference_mode()
    def fill(self, on_progress: Progress | None = None) -> None:
        """Read the prompts, shortest first, a pass of similar lengths at a time."""
        order = sorted(range(len(self._prompts)), key=lambda row: len(self._prompts[row]))
        total = sum(map(len, self._prompts))
        done = 0
        while order:
            batch = [order.pop()]
            width = len(self._prompts[batch[0]])
            while order and (len(batch) + 1) * width <= _PASS_TOKENS:
                batch.append(order.pop())
            self._read(batch, width)
            done += sum(len(self._prompts[row]) for row in batch)
            if on_progress is not None:
                on_progress(done / total)

    def _read(self, batch: list[int], width: int) -> None:
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        seen = torch.zeros(len(batch), width, dtype=torch.bool)
        for i, row in enumerate(batch):
            prompt = self._prompts[row]
            ids[i, width - len(prompt) :] = torch.tensor(prompt)
            seen[i, width - len(prompt) :] = True
        positions = (seen.cumsum(1) - 1).clamp(min=0)
        part = KeyValueCache(len(batch), width, self._cache.depth)
        self._model(
            input_ids=ids.to(self._device),
            attention_mask=seen.to(self._device),
            position_ids=positions.to(self._device),
            past_key_values=part.view(slice(None), 0),
            use_cache=True,
            logits_to_keep=1,
        )
        self._cache.place(part, batch, end=self._longest)

    @torch.inference_mode()
    def extend(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Append the same tokens to every row.

        Returns:
            Log-probabilities of the next token, float32 [rows, vocabulary].
        """
        logits = self._forward(list(token_ids), keep=1)[:, -1]
        self._used += len(token_ids)
        self._next = torch.log_softmax(logits, dim=-1)
        return self._next

    @torch.inference_mode()
    def score(self, continuations: Sequence[Sequence[int]]) -> torch.Tensor:
        """Log-probability of each continuation in each row; the rows stay as they were.

        Args:
            continuations: Non-empty sequences of token ids.

        Returns:
            Shape [rows, continuations], float64.
        """
        if self._next is None:
            raise ConfigurationError("rows are scored after at least one call of extend")
        columns = []
        for ids in map(list, continuations):
            total = self._next[:, ids[0]].double()
            if len(ids) > 1:
                # Runs past the end without moving it; the next call writes over these slots.
                logits = self._forward(ids[:-1], keep=len(ids) - 1)
                steps = torch.log_softmax(logits, dim=-1)
                targets = torch.tensor(ids[1:], device=self._device)
                picked = steps.gather(2, targets.expand(len(steps), -1).unsqueeze(2))
                total = total + picked.squeeze(2).double().sum(1)
            columns.append(total)
        return torch.stack(columns, dim=1)

    def _forward(self, token_ids: list[int], keep: int) -> torch.Tensor:
        """Logits float32 of the last ``keep`` tokens [rows, keep, vocabulary]."""
        width = len(token_ids)
        if self._used + width > self._cache.slots:
            raise ContextLengthError("more tokens were appended than room was made for")
        end = self._used + width
        offset = self._used - self._longest
        ids = torch.tensor(token_ids, device=self._device)
        steps = torch.arange(width, device=self._device)
        slots = torch.arange(end, device=self._device)
        parts = []
        size = max(1, _PASS_TOKENS // width)
        for first in range(0, len(self._prompts), size):
            rows = slice(first, min(first + size, len(self._prompts)))
            count = rows.stop - rows.start
            output = self._model(
                input_ids=ids.expand(count, -1),
                attention_mask=slots >= self._start[rows, None],
                position_ids=self._lengths[rows, None] + offset + steps,
                past_key_values=self._cache.view(rows, self._used),
                use_cache=True,
                logits_to_keep=keep,
            )
            parts.append(output.logits.float())
        return torch.cat(parts) if len(parts) > 1 else parts[0]
