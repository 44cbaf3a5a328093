"""Private text as tokens: a control token in it is the characters it is spelled with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from dpicl_rag.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# A piece that no text contains: models look up at least one character.
_UNREACHABLE = ""

# Some tokenizers raise on a character that they do not know. No vocabulary has this one.
_UNKNOWN = "\U0010fffd"


def plain_reader(tokenizer: PreTrainedTokenizerBase) -> Callable[[str], list[int]]:
    """A function from any text to token ids, none of them a control token.

    Whoever writes a document must not be able to write ``<think>`` or ``</s>`` into a prompt.
    ``split_special_tokens`` of transformers does not see to it: it skips only tokens that are
    marked as special, it is a switch on a backend that threads share, and a Unigram model, or one
    whose pieces are whole words, finds control tokens among its ordinary pieces.

    Args:
        tokenizer: Stays as it is.

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


def _fast_reader(backend: Tokenizer) -> Callable[[str], list[int]]:
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
    plain = Tokenizer.from_str(
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
