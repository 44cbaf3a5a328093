"""Tokenizers: text to token ids and back.

Private text is plain text: a control token in it is the characters it is spelled with.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import tokenizers

from dpicl_rag.errors import ConfigurationError, ContextLengthError, ModelError
from dpicl_rag.language_models.sentence_end import SentenceEnd

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedTokenizerBase

# How vocabularies write the space that a token begins with: byte-level BPE, SentencePiece, text.
_SPACES = ("\u0120", "\u2581", " ")

# No token of ordinary text is longer than this many characters, or than the longest of the
# vocabulary: an unknown word can be one token.
_TOKEN_CHARACTERS = 64

# A piece that no text contains: models look up at least one character.
_UNREACHABLE = ""

# Some tokenizers raise on a character that they do not know. No vocabulary has this one.
_UNKNOWN = "\U0010fffd"


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
        """End of a sentence; it looks at the whole vocabulary, once."""
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

    def encode_passages(self, passages: Sequence[str], most: int) -> tuple[int, ...]:
        """Tokens of passages, the earliest first, at most ``most``; none for no text."""
        ids: list[int] = []
        for passage in passages:
            own = f"\n\n{passage}" if ids else passage
            ids += self.encode_start(own, most - len(ids))
        return tuple(ids)

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
    """End of a sentence, for any tokenizer."""
    if isinstance(tokenizer, HuggingFaceTokenizer):
        return tokenizer.sentence_end
    return SentenceEnd(tokenizer.stop_tokens, {}, tokenizer.decode)


def plain_reader(tokenizer: PreTrainedTokenizerBase) -> Callable[[str], list[int]]:
    """A function from any text to token ids, none of them a control token.

    Whoever writes a document must not be able to write ``<think>`` or ``</s>`` into a prompt.
    ``split_special_tokens`` of transformers does not see to it: it skips only tokens that are
    marked as special, it is a switch on a backend that threads share, and a Unigram model, or one
    whose pieces are whole words, finds control tokens among its ordinary pieces.

    Raises:
        ModelError: A text could cause an error or spell a control token. It is raised here, where
            no document is at hand.
    """
    name = type(tokenizer).__name__
    try:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        read = _slow_reader(tokenizer) if backend is None else _fast_reader(backend)
        read(_UNKNOWN)
        added = {} if backend is not None else tokenizer.get_added_vocab()
        spelled = any(len(text) > 1 and id in read(text) for text, id in added.items())
    except Exception as error:
        raise ModelError(
            f"the tokenizer {name} does not read every text ({type(error).__name__}); give one "
            "that has a token for what it does not know"
        ) from error
    if spelled:
        raise ModelError(
            f"the tokenizer {name} takes control tokens from the text of documents; give its fast "
            "version (a folder with a tokenizer.json)"
        )
    return read


def _slow_reader(tokenizer: PreTrainedTokenizerBase) -> Callable[[str], list[int]]:
    def read(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(
            text,
            add_special_tokens=False,
            split_special_tokens=True,
            verbose=False,  # a warning would tell that a document is long, and how long
        )
        return ids

    return read


def _fast_reader(backend: tokenizers.Tokenizer) -> Callable[[str], list[int]]:
    """Reads with a copy of the backend from which the control tokens are gone.

    Added tokens of white space (runs of spaces, as code models have them) are ordinary text and
    stay; so does a piece of one character, such as an exclamation mark that serves as padding.
    """
    state = json.loads(backend.to_str())
    added = state["added_tokens"]
    spaces = [one for one in added if one["content"].isspace() and not one["special"]]
    control = {one["id"] for one in added if len(one["content"]) > 1 and one not in spaces}
    rebuild = _unigram if state["model"]["type"] == "Unigram" else _words
    model, kept = rebuild(state["model"], control, spaces)
    nothing = dict.fromkeys(("truncation", "padding", "post_processor"))
    plain = tokenizers.Tokenizer.from_str(
        json.dumps({**state, **nothing, "model": model, "added_tokens": kept})
    )
    return lambda text: plain.encode(text, add_special_tokens=False).ids


def _unigram(
    model: dict[str, Any], control: set[int], spaces: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A model whose pieces have their place as id."""
    pieces = [
        [_UNREACHABLE if place in control else piece, score]
        for place, (piece, score) in enumerate(model["vocab"])
    ]
    return {**model, "vocab": pieces}, [one for one in spaces if one["id"] < len(pieces)]


def _words(
    model: dict[str, Any], control: set[int], spaces: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A model with a table of pieces: BPE, WordPiece, WordLevel."""
    vocabulary = {piece: id for piece, id in model["vocab"].items() if id not in control}
    # An added token takes the id that its text has in the table, or the next one that is free.
    vocabulary |= {one["content"]: one["id"] for one in spaces}
    changed: dict[str, Any] = {"vocab": vocabulary}
    unknown = model.get("unk_token")
    if model["vocab"].get(unknown) in control:
        vocabulary[_UNREACHABLE] = model["vocab"][unknown]
        changed["unk_token"] = _UNREACHABLE
    if model["type"] == "BPE":
        prefix = len(model["continuing_subword_prefix"] or "")
        changed["dropout"] = None
        changed["merges"] = [
            [left, right]
            for left, right in model["merges"]
            if {left, right, left + right[prefix:]} <= vocabulary.keys()
        ]
    return {**model, **changed}, spaces


def require_room(
    prefix: Sequence[int], inputs: Sequence[Sequence[int]], room: int, context_length: int
) -> None:
    """Check that every row has an input, and fits the context with what will be appended.

    Raises:
        ConfigurationError: A row has no input.
        ContextLengthError: The longest row and the room exceed the context.
    """
    if not inputs or not all(inputs):
        raise ConfigurationError("every row needs a document of at least one token")
    if len(prefix) + max(map(len, inputs)) + room > context_length:
        raise ContextLengthError(
            "the prompt and the answer do not fit the model's context of "
            f"{context_length} tokens; shorten the question or lower max_tokens"
        )
