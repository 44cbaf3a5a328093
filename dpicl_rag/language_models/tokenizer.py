"""Text to token ids and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedTokenizerBase


class Tokenizer(Protocol):
    """What prompts, labels and answers need of a model's tokens."""

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Tokens that end an answer."""
        ...

    def encode(self, text: str) -> list[int]:
        """Tokens of ``text``; control tokens spelled out in it are read as plain text."""
        ...

    def encode_template(self, text: str) -> list[int]:
        """Tokens of public template text, control tokens included."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ``token_ids`` without control tokens."""
        ...

    def chat(self, messages: Sequence[dict[str, str]]) -> str | None:
        """The messages in the model's chat template, the answer's turn opened.

        Args:
            messages: Dicts with ``role`` and ``content``, a system message first.

        Returns:
            The text, or None where the model has no chat template.
        """
        ...


class HuggingFaceTokenizer:
    """A tokenizer from transformers.

    Args:
        tokenizer: A loaded tokenizer.
        generation: The model's generation configuration; may name more end tokens.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, generation: GenerationConfig | None = None
    ) -> None:
        self._tokenizer = tokenizer
        stop: set[int] = set()
        for source in (tokenizer.eos_token_id, getattr(generation, "eos_token_id", None)):
            if isinstance(source, int):
                stop.add(source)
            elif source is not None:
                stop.update(source)
        self.stop_tokens = frozenset(stop)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Every token and its id."""
        found: dict[str, int] = self._tokenizer.get_vocab()
        return found

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
