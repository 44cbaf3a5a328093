"""Capabilities of a server, its tokenizer and its bits: checked once, with public text."""

from __future__ import annotations

import contextlib
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dpicl_rag.errors import ModelError
from dpicl_rag.language_models.openai_compatible.completions import (
    PATH,
    Completions,
    Shown,
    Tokens,
    understood,
)
from dpicl_rag.language_models.openai_compatible.http_client import Server
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer

TEXT = "Größe: 12.5 µm, é — 日本語\n\n\tif (x_1 != 'y'):  return  f(x);  don't\r\n🙂 1234567"
"""Text on some of which any two different tokenizers differ."""

# Fields that vLLM knows. A salt keeps what this process had read out of others' timings.
_NUMBERS = {"return_tokens_as_token_ids": True}
_SALT = "cache_salt"
_MOST_SHOWN = (1000, 100, 20, 5, 1)
_NAMED = 4

Ask = Callable[[Sequence[Tokens], str], list[Shown]]
"""From prompts, and a name for the server's cache, to the tokens shown after each."""

MOVES = (
    "what the server says of a prompt moves with what else it computes: a row is then no function "
    "of one document, and the guarantee does not hold; start vLLM with VLLM_BATCH_INVARIANT=1, or "
    "serve the model in float32 (docs/engines.md)"
)

_CROWDS = (8, 64)
_LENGTH = 70  # spans several blocks of a server's cache, and a part of one


def served_model(server: Server, name: str) -> dict[str, Any]:
    """The server's description of one of its models.

    Args:
        server: The server.
        name: Of the model; empty for the only one.

    Raises:
        ModelError: It does not answer, or has no such model.
    """
    try:
        models = [one for one in server.get("/models")["data"] if isinstance(one["id"], str)]
    except (TypeError, LookupError):
        models = []
    found = [one for one in models if one["id"] == name or (not name and len(models) == 1)]
    if not found:
        wanted = f"has no model {name!r}" if name else "has not just one model"
        raise ModelError(
            f"the server at {server.url} {wanted}; name one that it lists under /models: "
            "openai+http://HOST:PORT/v1#MODEL"
        )
    return dict(found[0])


def require_tokenizer(server: Server, model: str, tokenizer: HuggingFaceTokenizer) -> None:
    """Check that the server reads a text as the tokenizer does, where the server tells.

    Raises:
        ModelError: It does not.
    """
    asked = {"model": model, "prompt": TEXT, "add_special_tokens": False}
    llama = {"content": TEXT, "add_special": False}
    answer = server.accepts("../tokenize", {**asked, **llama})
    if isinstance(answer, dict) and answer.get("tokens") != tokenizer.encode_template(TEXT):
        raise ModelError(
            "the tokenizer here is not that of the model that is served; name its folder or its "
            "Hugging Face id: openai+http://HOST:PORT/v1?tokenizer=NAME#MODEL"
        )


def connect(server: Server, model: str, vocabulary: int) -> tuple[Completions, bool]:
    """The server's requests, and whether its rows are each a function of their own prompt.

    Args:
        server: The server.
        model: As it names it.
        vocabulary: Token ids lie below it.

    Raises:
        ModelError: It gives no log-probabilities of numbered tokens for several prompts.
        EngineUnavailableError: It stopped answering.
    """
    salted = Completions(server, model, {**_NUMBERS, _SALT: secrets.token_hex(16)})
    found = _able(salted) or _able(replace(salted, options={}))
    if found is None:
        raise ModelError(
            f"the server at {server.url} does not give what this engine needs, log-probabilities "
            "of several prompts of token ids, with the ids of the tokens: take vLLM, or another "
            "server that docs/engines.md names"
        )
    found = replace(found, names=_names(found, vocabulary))

    def ask(prompts: list[Tokens], name: str) -> list[Shown]:
        options = dict(found.options)
        if _SALT in options:
            options[_SALT] += name
        return replace(found, options=options).public(prompts, {"logprobs": min(20, found.shown)})

    return found, rows_are_their_own(ask, vocabulary)  # type: ignore[arg-type]


def _able(completions: Completions) -> Completions | None:
    """With as many log-probabilities as the server gives; None where it is of no use."""
    prompts: list[Tokens] = [(1, 2, 3), (4, 5)]
    for shown in _MOST_SHOWN:
        body = completions.body(prompts, logprobs=shown)
        answer = completions.server.accepts(PATH, body)
        if answer is None:
            continue
        with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
            rows = understood(answer, body)
            if all(rows):
                # A server may give fewer than it was asked for, and say nothing.
                return replace(completions, shown=min(shown, *map(len, rows)))
        return None
    return None


def _names(completions: Completions, vocabulary: int) -> bool:
    """True of a server that shows tokens that are named, whatever their rank."""
    prompt: Tokens = (1, 2, 3)
    [likely] = completions.public([prompt])
    asked = [id for id in range(vocabulary) if id not in likely][:_NAMED]
    if not asked:
        return False
    body = completions.body([prompt], logprobs=1, logprob_token_ids=asked)
    answer = completions.server.accepts(PATH, body)
    with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
        return answer is not None and set(asked) <= understood(answer, body)[0].keys()
    return False


def rows_are_their_own(ask: Ask, vocabulary: int) -> bool:
    """True where a prompt is answered alike, bit by bit: alone and among others, cold and warm.

    Args:
        ask: Asks the server.
        vocabulary: Token ids lie below it.
    """
    coins = random.Random(0)  # noqa: S311

    def prompt(length: int) -> Tokens:
        return tuple(coins.randrange(vocabulary) for _ in range(length))

    known = prompt(_LENGTH)
    [single] = ask([known], "alone")
    if not single or ask([known], "alone") != [single]:
        return False
    for crowd in _CROWDS:
        place = crowd // 2
        others = [prompt(coins.randint(2, 40)) for _ in range(crowd - 1)]
        # One that begins as it does, for what caches share.
        others[0] = known[: _LENGTH - 6] + prompt(3)
        prompts = [*others[:place], known, *others[place:]]
        for name in (f"among {crowd}", f"among {crowd}", "alone"):
            if ask(prompts, name)[place] != single:
                return False
    return True
