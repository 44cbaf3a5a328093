"""The rows of a server: token lists here, log-probabilities there.

A server shows the likeliest tokens of a row alone, and those bound the others. Every row of an
expert follows from what its own prompt shows and from the public row: from its own unit and public
numbers, bit for bit. What is computed over the vocabulary is a sum, a minimum and a copy, whose
bits depend on no neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import torch

from dpicl_rag.errors import ConfigurationError, ContextLengthError
from dpicl_rag.language_models.copy_bias import CopyBias
from dpicl_rag.language_models.openai_compatible.completions import (
    Completions,
    Said,
    Shown,
    Tokens,
)
from dpicl_rag.language_models.openai_compatible.http_client import JSONObject
from dpicl_rag.language_models.sentence_end import Continuation, SentenceEnd
from dpicl_rag.mechanisms.step import DenseStep, Step

T = TypeVar("T")

_LEAST = 1e-9
"""Probability that is left over at least, so that every token stays possible."""


class ServerRows:
    """The public row, then the experts. Nothing is sent before something is appended.

    Args:
        completions: Asks the server.
        prompts: Token ids of each row, the public one first.
        room: How many tokens will be appended at most.
        size: Of the vocabulary.
        copy_bias: Makes rows favour words of their own input; None leaves them as they are.
        sentence_end: Where a sentence ends that a row says by itself.
        end: The token that ends an answer, if there is one.
    """

    def __init__(
        self,
        completions: Completions,
        prompts: Sequence[Tokens],
        room: int,
        size: int,
        copy_bias: CopyBias | None = None,
        sentence_end: SentenceEnd | None = None,
        end: int | None = None,
    ) -> None:
        self._completions = completions
        self._public, *self._experts = prompts
        self._room = room
        self._size = size
        self._copy_bias = copy_bias
        self._sentence_end = sentence_end
        self._end = end
        self._appended: Tokens = ()
        self._silent: set[int] = set()  # experts that the server does not answer, by themselves

    def __repr__(self) -> str:
        return "ServerRows(<private>)"

    def extend(self, token_ids: Sequence[int]) -> Step:
        """Append the same tokens to every row; log-probabilities in float32."""
        return self.extend_each(token_ids, keep=1)[0]

    def extend_each(self, token_ids: Sequence[int], keep: int) -> list[Step]:
        """Append the same tokens to every row; a step after each of the last ``keep``.

        Every place of a row is a prompt of its own.
        """
        appended = (*self._appended, *token_ids)
        if len(appended) > self._room:
            raise ContextLengthError("more tokens were appended than room was made for")
        ends = [appended[: len(appended) - left] for left in reversed(range(keep))]
        found = list(self._places(ends, None))
        self._appended = appended
        return [DenseStep(rows[0], rows[1:]) for rows in found]

    def rewind(self, tokens: int) -> None:
        """Forget the last ``tokens`` appended tokens."""
        self._appended = self._appended[: len(self._appended) - tokens]

    def continue_each(
        self, token_ids: Sequence[int], most: int, asked: Sequence[bool]
    ) -> list[Continuation]:
        """Continuations of experts, in one request for each; see ``SpeakingRows``.

        The server goes on by itself, so no row favours words of its own here.
        """
        appended = (*self._appended, *token_ids)
        if len(appended) + most > self._room + 1:
            raise ContextLengthError("more tokens were appended than room was made for")
        speaking = [at for at, one in enumerate(asked) if one]
        ask = partial(self._completions.continued, most=most)
        nothing: Said = (), False
        said = iter(self._replies(speaking, [appended], ask, nothing))
        return [self._continuation(next(said)) if one else Continuation((), ()) for one in asked]

    def _continuation(self, said: Said) -> Continuation:
        """Continuation of a row; nothing where a token is none of the vocabulary."""
        places, ended = list(said[0]), said[1]
        tokens = [max(shown, key=lambda token: (shown[token], -token)) for shown in places]
        if not all(0 <= token < self._size for token in tokens):
            return Continuation((), ())
        if ended and self._end is not None:
            tokens.append(self._end)  # some servers leave it out
            places.append({self._end: 0.0})
        each = zip(places, tokens, strict=True)
        log_probs = tuple(shown[token] for shown, token in each)
        return Continuation(tuple(tokens), log_probs, tuple(map(self._ending, places)))

    def _ending(self, shown: Shown) -> float:
        """Log-probability that the sentence ends, as far as it is shown."""
        known = frozenset() if self._sentence_end is None else self._sentence_end.tokens
        whole = math.fsum(math.exp(shown[token]) for token in known & shown.keys())
        return math.log(whole) if whole > 0 else -math.inf

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        """Log-probabilities of continuations, normalised over them; rows stay as they were.

        Exact where the server names tokens, up to 128 of them. Else a token that a row does not
        show has what `expert_rows` gives it.
        """
        if not self._appended:
            raise ConfigurationError("rows are scored after at least one call of extend")
        labels = [tuple(ids) for ids in continuations]
        asked = sorted({token for ids in labels for token in ids})
        starts = sorted({ids[:at] for ids in labels for at in range(len(ids))})

        # A row that favours its own words is normalised over all of them.
        named = self._completions.named(asked)
        fields = named if self._copy_bias is None else {"logprobs": self._completions.shown}
        found = self._places([(*self._appended, *start) for start in starts], fields)
        total = torch.zeros(1 + len(self._experts), len(labels), dtype=torch.float64)
        for start, rows in zip(starts, found, strict=True):
            for at, ids in enumerate(labels):
                if len(ids) > len(start) and ids[: len(start)] == start:
                    total[:, at] += rows[:, ids[len(start)]].double()
        scores = torch.log_softmax(total, dim=-1)
        return DenseStep(scores[0], scores[1:])

    def _places(self, ends: Sequence[Tokens], fields: JSONObject | None) -> Iterator[torch.Tensor]:
        """Log-probabilities after each end of every row, float32 [rows, size].

        The public row is asked by itself and first, so that no expert is at work beside it.
        """
        bare = self._completions.public([(*self._public, *end) for end in ends], fields)
        ask = partial(self._completions.experts, fields=fields)
        nothing: Shown = {}
        own = self._replies(range(len(self._experts)), ends, ask, nothing)
        for at in range(len(ends)):
            row = public_row(bare[at], self._size)
            rows = torch.cat([row[None], expert_rows(own[at :: len(ends)], row)])
            if self._copy_bias is not None:
                self._copy_bias.apply(rows[:, None])
            yield rows

    def _replies(
        self,
        experts: Sequence[int],
        ends: Sequence[Tokens],
        ask: Callable[[Sequence[Tokens]], list[T | None]],
        nothing: T,
    ) -> list[T]:
        """Replies of the server for each expert after each end.

        One that it does not answer by itself is not asked again: it would fail for so long again.
        """
        answering = [expert for expert in experts if expert not in self._silent]
        prompts = [(*self._experts[expert], *end) for expert in answering for end in ends]
        found = iter(ask(prompts))
        own = {expert: [next(found) for _ in ends] for expert in answering}
        self._silent |= {expert for expert, said in own.items() if None in said}
        nobody: list[T | None] = [None] * len(ends)
        each = [one for expert in experts for one in own.get(expert, nobody)]
        return [nothing if one is None else one for one in each]


def public_row(shown: Shown, size: int) -> torch.Tensor:
    """The public row: what it does not show shares what is left over evenly.

    Args:
        shown: Its likeliest tokens.
        size: Of the vocabulary.

    Returns:
        Log-probabilities, float32 [size]; no token is impossible.
    """
    known = _within(shown, size)
    row = torch.full((size,), math.nan)
    if shown:
        others = max(1, size - len(known))
        row.fill_(min(math.log(_left(shown.values()) / others), *shown.values()))
        _show(row, known)
    return row


def expert_rows(shown: Sequence[Shown], public: torch.Tensor) -> torch.Tensor:
    """Rows of experts: what is not shown is as likely as the public row has it among the rest.

    An expert that shows N tokens gives each other at most what it gives the least of them. It
    shares what is left over as the public row would, up to that. Nothing is asked about tokens that
    other experts name: a row would then depend on which others there are.

    Args:
        shown: The likeliest tokens of each expert.
        public: Log-probabilities of the public row [size].

    Returns:
        Log-probabilities, float32 [n, size]; a row that shows nothing is no distribution.
    """
    size = len(public)
    rows = public.repeat(len(shown), 1)
    for row, own in zip(rows, shown, strict=True):
        known = _within(own, size)
        if not own:
            row.fill_(math.nan)
            continue
        share = _left(own.values()) / _left(public[_ids(known)].tolist())
        row.add_(math.log(share)).clamp_(max=min(own.values()))
        _show(row, known)
    return rows


def _left(log_probs: Iterable[float]) -> float:
    return max(_LEAST, 1.0 - math.fsum(math.exp(value) for value in log_probs))


def _within(shown: Shown, size: int) -> Shown:
    """Without numbers beyond the vocabulary, which no text can hold; they are left over."""
    return {id: value for id, value in shown.items() if 0 <= id < size}


def _show(row: torch.Tensor, known: Shown) -> None:
    row[_ids(known)] = torch.tensor(list(known.values()), dtype=row.dtype)


def _ids(known: Shown) -> torch.Tensor:
    return torch.tensor(list(known), dtype=torch.long)
