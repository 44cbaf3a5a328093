"""Requests for next tokens, and the likeliest tokens in the answers, by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from dpicl_rag.language_models.openai_compatible.http_client import JSONObject, Server

PATH = "/completions"
ROWS = 64
"""Rows of one request. Public, so that its size says little of how many rows there are, and a
request that fails costs few."""

Shown = dict[int, float]
"""Log-probability of each token that is shown; empty where the server says nothing of use."""

Said = tuple[Sequence[Shown], bool]
"""Continuation of a prompt: at each place the tokens that are shown, of which the likeliest is
said, and whether it ended by itself. Nothing where the server says nothing of use."""

T = TypeVar("T")
_PUBLIC: tuple[int, ...] = (1, 2, 3)  # a prompt that tells whether anybody is answered
Tokens = tuple[int, ...]
_TOKEN = "token_id:"  # noqa: S105 - what vLLM writes before a token's number


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
    options: JSONObject = field(repr=False)
    shown: int = 1
    names: bool = False

    # Of an expert: more says hardly more (docs/engines.md), and takes the server time.
    _EXPERT = 20
    _NAMED = 128

    def public(self, prompts: Sequence[Tokens], fields: JSONObject | None = None) -> list[Shown]:
        """Tokens of public rows.

        Args:
            prompts: Public.
            fields: Of the request, see `named`; by default as many tokens as the server gives.

        Raises:
            EngineUnavailableError: See `Server.ask`.
        """
        bodies = self._bodies(prompts, fields or {"logprobs": self.shown})
        return [row for rows in self.server.ask(PATH, bodies, understood) for row in rows]

    def experts(
        self, prompts: Sequence[Tokens], fields: JSONObject | None = None
    ) -> list[Shown | None]:
        """Tokens of experts' rows; None of a prompt that by itself gets no answer.

        Args:
            prompts: Private.
            fields: As for `public`; by default a public number of tokens.

        Raises:
            EngineUnavailableError: See `Server.ask_each`.
        """
        few = {"logprobs": min(self._EXPERT, self.shown)}
        return self._each(prompts, fields or few, understood)

    def named(self, tokens: Sequence[int]) -> JSONObject:
        """Fields that ask for some tokens; for as many as there are, where those have no names."""
        if not self.names or len(tokens) > self._NAMED:
            return {"logprobs": self.shown}
        return {"logprobs": 1, "logprob_token_ids": list(tokens)}

    def continued(self, prompts: Sequence[Tokens], most: int) -> list[Said | None]:
        """The likeliest continuation of each prompt of an expert, see `experts`.

        Args:
            prompts: Of experts.
            most: Tokens of a continuation. Public.

        Raises:
            EngineUnavailableError: See `Server.ask_each`.
        """
        shown = min(self._EXPERT, self.shown)
        return self._each(prompts, {"max_tokens": most, "logprobs": shown}, continuations)

    def body(self, prompts: Sequence[Tokens], **more: Any) -> JSONObject:
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

    def _each(
        self,
        prompts: Sequence[Tokens],
        fields: JSONObject,
        read: Callable[[Any, JSONObject], list[T]],
    ) -> list[T | None]:
        ask = partial(self.server.ask_each, PATH, understand=read)
        (public,) = self._bodies([_PUBLIC], fields)
        bodies = self._bodies(prompts, fields)
        found: list[T | None] = []
        for body, rows in zip(bodies, ask(bodies, public=public, at_once=True), strict=True):
            if rows is None:  # a prompt of many may be why: each by itself then
                single = self._bodies(body["prompt"], fields, 1)
                found += [None if own is None else own[0] for own in ask(single, public=public)]
            else:
                found += rows
        return found

    def _bodies(
        self, prompts: Sequence[Tokens], fields: JSONObject, most: int = ROWS
    ) -> list[JSONObject]:
        """Requests with a public number of prompts each."""
        chunks = [prompts[first : first + most] for first in range(0, len(prompts), most)]
        return [self.body(chunk, **fields) for chunk in chunks]


def understood(answer: Any, body: JSONObject) -> list[Shown]:
    """Tokens that an answer shows for each prompt, in the order of the prompts.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: It is no answer to these prompts.
    """
    return [_shown(choice) for choice in _finished(answer, body)]


def continuations(answer: Any, body: JSONObject) -> list[Said]:
    """Continuations of an answer, one for each prompt in their order.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: It is no answer to these prompts.
    """
    return [_said(choice, body["max_tokens"]) for choice in _finished(answer, body)]


def _finished(answer: Any, body: JSONObject) -> list[Any]:
    """The choices of an answer, one for each prompt.

    What stands in a choice that was finished follows from its own prompt, so it may not end an
    answer: that would tell of one document. Why a choice was not finished follows from more.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: One was not.
    """
    choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
    if [choice["index"] for choice in choices] != list(range(len(body["prompt"]))):
        raise ValueError
    if not all(choice["finish_reason"] in (*_FINISHED, _REFUSED) for choice in choices):
        raise ValueError
    return choices


def _shown(choice: Any) -> Shown:
    """Tokens that a choice shows; none where it is refused, or where anything in it is odd."""
    if choice["finish_reason"] == _REFUSED:
        return {}
    try:
        pairs = _pairs(choice["logprobs"], 0)
        shown = {int(token): _log_probability(value) for token, value in pairs}
    except _ODD:
        return {}
    return shown if len(shown) == len(pairs) else {}


def _said(choice: Any, most: int) -> Said:
    """Continuation of a choice; nothing where it is refused, or where anything in it is odd."""
    if choice["finish_reason"] == _REFUSED:
        return (), False
    try:
        found = choice["logprobs"]
        places = len(found["content"] if "content" in found else found["top_logprobs"])
        said = [_by_token(_pairs(found, at)) for at in range(places)]
    except _ODD:
        return (), False
    ended = choice["finish_reason"] == "stop"
    whole = places <= most if ended else places == most
    return (said, ended) if whole else ((), False)


def _by_token(pairs: list[tuple[Any, Any]]) -> Shown:
    """At least one.

    Raises:
        ValueError: There is none.
    """
    if not pairs:
        raise ValueError
    return {int(token): _log_probability(value) for token, value in pairs}


def _pairs(found: Any, at: int) -> list[tuple[Any, Any]]:
    """Numbers of tokens at a place, each with its log-probability."""
    if "content" in found:  # llama.cpp
        return [(one["id"], one["logprob"]) for one in found["content"][at]["top_logprobs"]]
    named = found["top_logprobs"][at].items()
    if not all(name.startswith(_TOKEN) for name, _ in named):
        raise ValueError  # by its text: which token is meant is not known
    return [(name.removeprefix(_TOKEN), value) for name, value in named]


def _log_probability(value: object) -> float:
    """A number that a row may hold. Null is none, and stands for what is none.

    Raises:
        ValueError: It is no such number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    if not _LEAST <= value <= _MOST:
        raise ValueError
    return float(value)


_FINISHED, _REFUSED = ("length", "stop"), "content_filter"
_ODD = (ValueError, TypeError, LookupError, AttributeError, OverflowError)
_LEAST = -1e6
"""No float32 softmax says less of a token that is possible; vLLM says -9999 of others."""
_MOST = 1e-3
"""No log-probability is above 0 but for rounding."""
