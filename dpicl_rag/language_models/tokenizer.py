"""Text to token ids and back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from dpicl_rag.language_models.plain_text import plain_reader
from dpicl_rag.language_models.sentence_end import SentenceEnd

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedTokenizerBase


class Tokenizer(Protocol):
    """The interface of tokenizers."""

    @property
    def start_tokens(self) -> Sequence[int]:
        """Tokens that every prompt begins with; often one (BOS) or none."""
        ...

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Tokens that end an answer."""
        ...

    def encode(self, text: str) -> list[int]:
        """Tokens of ``text``; control tokens spelled out in it are read as plain text."""
        ...

    def encode_template(self, text: str) -> list[int]:
        """Tokens of public template text, control tokens included; nothing is added to them."""
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


# How vocabularies write the space that a token begins with: byte-level BPE, SentencePiece, text.
_SPACES = ("\u0120", "\u2581", " ")

# No token of ordinary text is longer than this many characters, or than the longest of the
# vocabulary: an unknown word can be one token.
_TOKEN_CHARACTERS = 64


class HuggingFaceTokenizer:
    """A tokenizer from transformers. Safe for threads.

    Args:
        tokenizer: A loaded tokenizer.
        generation: The model's generation configuration; may name more end tokens.

    Raises:
        ModelError: A document could cause an error or spell a control token.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, generation: GenerationConfig | None = None
    ) -> None:
        self._tokenizer = tokenizer
        # Some in Python hold what they read (MeCab's lattice), and answers of all threads share it.
        self._one_at_a_time = threading.Lock()
        stop: set[int] = set()
        for source in (tokenizer.eos_token_id, getattr(generation, "eos_token_id", None)):
            if isinstance(source, int):
                stop.add(source)
            elif source is not None:
                stop.update(source)
        self.stop_tokens = frozenset(stop)
        self._read = plain_reader(tokenizer)
        self.start_tokens = self._find_start()
        self._token_characters = max(_TOKEN_CHARACTERS, *map(len, self.vocabulary))

    @property
    def vocabulary(self) -> dict[str, int]:
        """Every token and its id."""
        found: dict[str, int] = self._tokenizer.get_vocab()
        return found

    @cached_property
    def sentence_end(self) -> SentenceEnd:
        """Where a sentence ends; it looks at the whole vocabulary, once."""
        return SentenceEnd(self.stop_tokens, self.vocabulary, self.decode)

    @cached_property
    def other_spellings(self) -> dict[int, int]:
        """The token with a leading space for the one without, and the other way round."""
        vocabulary, found = self.vocabulary, {}
        for token, spaced in vocabulary.items():
            bare = vocabulary.get(token[1:]) if token.startswith(_SPACES) else None
            if bare is not None:
                found[spaced], found[bare] = bare, spaced
        return found

    def encode(self, text: str) -> list[int]:
        """Tokens of ``text``; a control token spelled out in a document stays plain text.

        Half characters (lone surrogates) become question marks, so that no document can end an
        answer with an error.
        """
        with self._one_at_a_time:
            return self._read(text.encode("utf-8", "replace").decode())

    def encode_start(self, text: str, most: int) -> list[int]:
        """The first ``most`` tokens of ``text``; what comes long after them is not looked at."""
        return self.encode(text[: most * self._token_characters])[:most]

    def encode_template(self, text: str) -> list[int]:
        """Tokens of public template text, control tokens included; nothing is added to them."""
        with self._one_at_a_time:
            return list(self._tokenizer.encode(text, add_special_tokens=False, verbose=False))

    def _find_start(self) -> tuple[int, ...]:
        """Tokens that the tokenizer puts before a text; those behind it would end a prompt."""
        text = "a"
        bare = self.encode_template(text)
        whole: list[int] = self._tokenizer.encode(text, verbose=False)
        places = [at for at in range(len(whole)) if whole[at : at + len(bare)] == bare]
        return tuple(whole[: places[0]]) if places else ()

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ``token_ids`` without control tokens."""
        with self._one_at_a_time:
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


def sentence_end_of(tokenizer: Tokenizer) -> SentenceEnd:
    """Where a sentence ends, for any tokenizer."""
    if isinstance(tokenizer, HuggingFaceTokenizer):
        return tokenizer.sentence_end
    return SentenceEnd(tokenizer.stop_tokens, {}, tokenizer.decode)
