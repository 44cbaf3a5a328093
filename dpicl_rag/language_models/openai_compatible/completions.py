"""What one row is asked for, and what its answer shows: the likeliest next tokens, by number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dpicl_rag.language_models.openai_compatible.server import Body, Server

PATH = "/completions"
ROWS = 64
"""Rows of one request. Public, so that its size says little of how many rows there are, and a
request that fails costs few."""

Shown = dict[int, float]
"""Log-probability of each token that is shown; empty where the server refuses to say anything."""

Tokens = tuple[int, ...]
_TOKEN = "token_id:"  # noqa: S105 - what vLLM writes before a token's number


class NamelessTokensError(Exception):
    """A server names tokens by their text: which token is meant cannot be told."""


@dataclass(frozen=True, slots=True)
class Completions:
    """Asks a server for the token after each of some prompts.

    Attributes:
        server: The server.
        model: As it names it.
        options: Fields of every request that are its own.
        shown: Most log-probabilities that it gives for a prompt.
        names: Whether it gives those of tokens that are named.
    """

    server: Server
    model: str
    options: Body = field(repr=False)
    shown: int = 1
    names: bool = False

    # Of an expert: more says hardly more (docs/engines.md), and takes the server time.
    _EXPERT = 20
    _NAMED = 128

    def public(self, prompts: Sequence[Tokens]) -> list[Shown]:
        """What a public row may show: as much as the server gives.

        Raises:
            EngineUnavailableError: See `Server.ask`.
        """
        return self._ask(prompts, {"logprobs": self.shown})

    def experts(self, prompts: Sequence[Tokens]) -> list[Shown]:
        """What experts show: a public number of tokens.

        Raises:
            EngineUnavailableError: See `Server.ask`.
        """
        return self._ask(prompts, {"logprobs": min(self._EXPERT, self.shown)})

    def named(self, prompts: Sequence[Tokens], tokens: Sequence[int]) -> list[Shown]:
        """What is shown of some tokens; where the server cannot name them, as much as it gives.

        Raises:
            EngineUnavailableError: See `Server.ask`.
        """
        if not self.names or len(tokens) > self._NAMED:
            return self.public(prompts)
        return self._ask(prompts, {"logprobs": 1, "logprob_token_ids": list(tokens)})

    def body(self, prompts: Sequence[Tokens], **more: Any) -> Body:
        """A request for the next token of some prompts."""
        return {
            "model": self.model,
            "prompt": [list(prompt) for prompt in prompts],
            "max_tokens": 1,
            # The token that is drawn is among the likeliest then, and adds none to them.
            "temperature": 0,
            **self.options,
            **more,
        }

    def _ask(self, prompts: Sequence[Tokens], more: Body) -> list[Shown]:
        chunks = [prompts[first : first + ROWS] for first in range(0, len(prompts), ROWS)]
        bodies = [self.body(chunk, **more) for chunk in chunks]
        return [row for rows in self.server.ask(PATH, bodies, understood) for row in rows]


def understood(answer: Any, body: Body) -> list[Shown]:
    """What an answer shows of each prompt, in the order of the prompts.

    Raises:
        NamelessTokensError: Tokens have no numbers.
        ValueError, TypeError, LookupError, AttributeError: It is no answer to these prompts.
    """
    choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
    if [choice["index"] for choice in choices] != list(range(len(body["prompt"]))):
        raise ValueError
    return [_shown(choice) for choice in choices]


def _shown(choice: Any) -> Shown:
    # A filter's verdict follows from this prompt alone, so the row says nothing; see `experts`.
    if choice["finish_reason"] == "content_filter":
        return {}
    found = choice["logprobs"]
    if "content" in found:  # llama.cpp
        pairs = [(one["id"], one["logprob"]) for one in found["content"][0]["top_logprobs"]]
    else:
        named = found["top_logprobs"][0]
        if not all(name.startswith(_TOKEN) for name in named):
            raise NamelessTokensError
        pairs = [(name.removeprefix(_TOKEN), value) for name, value in named.items()]
    # A number that is none comes as null: it follows from this prompt alone, as the refusal above.
    shown = {int(id): math.nan if value is None else float(value) for id, value in pairs}
    if not shown:
        raise ValueError
    return {} if any(math.isnan(value) or value > _MOST for value in shown.values()) else shown


_MOST = 1e-3
"""No log-probability is above 0 but for rounding."""
