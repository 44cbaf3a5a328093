"""The running rows of a transformers model: the public row and the experts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence, Set
from contextvars import ContextVar
from typing import Protocol

import torch

from dpicl_rag._context_variables import held
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.copy_bias import CopyBias
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.key_value_cache import Layers
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.sentence_end import Continuation, SentenceEnd
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.mechanisms.step import DenseStep, Step

Tokens = Sequence[int]
NewTokens = Tokens | torch.Tensor
"""The same new tokens for every row, or int64 [rows, width]: those of each. The width is public."""


class Batch(Protocol):
    """Rows of one model that grow together, each a function of its own input and tokens.

    Bit for bit: nothing of a row follows from how many others there are, or what they hold.

    Attributes:
        version: Part of every cache key: how a document is read decides its bits.
    """

    version: str

    def forward(self, token_ids: NewTokens, keep: int) -> torch.Tensor:
        """Log-probabilities after the last ``keep`` of some tokens, the batch left where it was.

        Args:
            token_ids: New tokens, as many for every row.
            keep: How many of the last of them are asked for.

        Returns:
            Float32 [rows, keep, vocabulary].
        """
        ...

    def move(self, tokens: int) -> None:
        """Count tokens that ``forward`` has read as appended; below zero, forget the last ones."""
        ...

    def only(self, rows: Sequence[int]) -> Batch:
        """Some of the rows in a batch of their own, which grows by itself from here on."""
        ...


SharedPass = Callable[[Batch, NewTokens, int], torch.Tensor | None]
"""`Batch.forward` in a pass that other answers share; None where there is nobody to share it."""

shared_pass: ContextVar[SharedPass | None] = ContextVar("shared_pass")
"""Asked before a batch runs a pass by itself."""


class TransformersRows:
    """The public row, then the experts.

    Args:
        batch: Both, in this order.
        copy_bias: Makes rows favour words of their own input; None leaves them as they are.
        end: Where a sentence ends that a row says by itself.
    """

    def __init__(
        self, batch: Batch, copy_bias: CopyBias | None = None, end: SentenceEnd | None = None
    ) -> None:
        self._batch = batch
        self._copy_bias = copy_bias
        self._end = end
        self._next: torch.Tensor | None = None

    def extend(self, token_ids: Tokens) -> Step:
        """Append the same tokens to every row; log-probabilities in float32."""
        return self.extend_each(token_ids, keep=1)[0]

    def extend_each(self, token_ids: Tokens, keep: int) -> list[Step]:
        """Append the same tokens to every row; a step after each of the last ``keep``."""
        found = self._read_on(token_ids, keep)
        self._next = found[:, -1]
        return [_step(found[:, at]) for at in range(keep)]

    def continue_each(
        self, token_ids: Tokens, most: int, asked: Sequence[bool]
    ) -> list[Continuation]:
        """Continuations of experts by themselves; see ``SpeakingRows``.

        Rows whose sentence has ended are left, so that the others are read in less time. No row
        is moved by that, as none is by the others.
        """
        known = frozenset() if self._end is None else self._end.words(token_ids)
        said = [_Saying(self._end, known) for _ in asked]
        speaking = {row: said[row - 1] for row, one in enumerate(asked, start=1) if one}
        reader, rows, appended = self, 1 + len(asked), 0
        new: NewTokens = token_ids
        for _ in range(most):
            if not speaking:
                break
            if len(speaking) <= rows // 2:
                kept = list(speaking)
                reader, rows = reader._only(kept), len(kept)
                new = new[kept] if isinstance(new, torch.Tensor) else new
                speaking = dict(enumerate(speaking.values()))
            found = reader._read_on(new, keep=1)[:, -1]
            appended += width_of(new) if reader is self else 0
            tokens = found.argmax(dim=-1)
            for row, own in list(speaking.items()):
                tokens[row] = own.say(int(tokens[row]), found[row])
                if own.ended:
                    del speaking[row]
            new = tokens[:, None]
        self.rewind(appended)
        return [own.so_far for own in said]

    def _only(self, rows: Sequence[int]) -> TransformersRows:
        """Some of the rows, which grow by themselves from here on."""
        bias = None if self._copy_bias is None else self._copy_bias.only(rows)
        return TransformersRows(self._batch.only(rows), bias, self._end)

    def _read_on(self, token_ids: NewTokens, keep: int) -> torch.Tensor:
        """Append tokens; log-probabilities after the last ``keep`` [rows, keep, vocabulary]."""
        self._next = None  # frees its memory
        ask = held(shared_pass)
        # Not in inference mode, which belongs to the thread: others go on meanwhile.
        found = None if ask is None else ask(self._batch, token_ids, keep)
        with enough_memory(), torch.inference_mode():
            found = self._forward(token_ids, keep, found)
        self._batch.move(width_of(token_ids))
        return found

    def rewind(self, tokens: int) -> None:
        """Forget the last ``tokens`` appended tokens."""
        self._batch.move(-tokens)
        self._next = None

    def score(self, continuations: Sequence[Tokens]) -> Step:
        """Log-probabilities of continuations, normalised over them; rows stay as they were."""
        if self._next is None:
            raise ConfigurationError("rows are scored after at least one call of extend")
        columns = []
        for ids in continuations:
            with enough_memory(), torch.inference_mode():
                total = self._next[:, ids[0]].double()
                if len(ids) > 1:
                    # Runs past the end without moving it; the next call writes over these slots.
                    steps = self._forward(ids[:-1], keep=len(ids) - 1)
                    targets = torch.tensor(list(ids[1:]), device=steps.device)
                    picked = steps.gather(2, targets.expand(len(steps), -1).unsqueeze(2))
                    total = total + picked.squeeze(2).double().sum(1)
                columns.append(total)
            give_way()
        with enough_memory(), torch.inference_mode():
            return _step(torch.log_softmax(torch.stack(columns, dim=1), dim=-1))

    def fork(self) -> TransformersRows:
        """A copy with counters of its own over the same cache.

        What one of them appends takes the place of what the others have appended since.
        """
        other = copy.copy(self)
        other._batch = copy.copy(self._batch)
        return other

    def _forward(
        self, token_ids: NewTokens, keep: int, found: torch.Tensor | None = None
    ) -> torch.Tensor:
        if found is None:
            found = self._batch.forward(token_ids, keep)
        if self._copy_bias is not None:
            self._copy_bias.apply(found)
        return found


class _Saying:
    """The continuation of one expert so far. Private.

    Args:
        end: Where its sentence ends.
        known: Words that are no news.
    """

    def __init__(self, end: SentenceEnd | None, known: Set[str]) -> None:
        self._end = end
        self._known = known
        self._tokens: list[int] = []
        self._log_probs: list[float] = []
        self._ends: list[float] = []

    def say(self, token: int, row: torch.Tensor) -> int:
        """The token that is said: the likeliest, or the likeliest that ends nothing before news."""
        if self._end is not None:
            ends = self._end.indices.to(row.device)
            # A sum over one row alone: it is the same beside any others.
            self._ends.append(float(row[ends].logsumexp(dim=0)))
            if token in self._end.tokens and not self._end.words(self._tokens) - self._known:
                token = int(row.index_fill(0, ends, -torch.inf).argmax())
        self._tokens.append(token)
        self._log_probs.append(float(row[token]))
        return token

    @property
    def ended(self) -> bool:
        return self._end is not None and self._end.at(self.so_far, self._known) is not None

    @property
    def so_far(self) -> Continuation:
        return Continuation(tuple(self._tokens), tuple(self._log_probs), tuple(self._ends))


def width_of(token_ids: NewTokens) -> int:
    """Number of new tokens that every row gets. Public."""
    return token_ids.shape[1] if isinstance(token_ids, torch.Tensor) else len(token_ids)


def _step(rows: torch.Tensor) -> Step:
    """A step of rows [rows, candidates], the public one first."""
    return DenseStep(rows[0], rows[1:])


class CachedStates:
    """One model's and one shared prefix's place in a cache, or none.

    Args:
        cache: Where keys and values are kept, if anywhere.
        fingerprint: Identifies the model, how it reads, and on which machine: all that decides
            bits beside the tokens.
        prefix: What stands before every document.
    """

    def __init__(self, cache: PrefixCache | None, fingerprint: str, prefix: Tokens) -> None:
        self._cache = cache
        self._fingerprint = fingerprint
        self._prefix = prefix

    def fetch(self, own: Tokens, device: torch.device) -> Layers | None:
        """Keys and values of a document; those of the prefix itself for no tokens."""
        if self._cache is None:
            return None
        return self._cache.get(self._key(own), device)

    def keep(self, own: Tokens, layers: Layers) -> None:
        """Keep a copy."""
        if self._cache is not None:
            copies = [(keys.clone(), values.clone()) for keys, values in layers]
            self._cache.put(self._key(own), copies)

    def _key(self, own: Tokens) -> str:
        return PrefixCache.key(self._fingerprint, self._prefix, own)


def normalised(logits: torch.Tensor) -> torch.Tensor:
    """Log-probabilities, written over the logits: with many experts a second copy is large."""
    for first in range(0, len(logits), 32):
        part = logits[first : first + 32]
        part.copy_(torch.log_softmax(part, dim=-1))
    return logits
