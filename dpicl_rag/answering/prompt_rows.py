"""Rows of a prompt: the public row, and one for each expert, documents read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dpicl_rag.language_models.base import (
    BlockRows,
    Input,
    LanguageModel,
    Progress,
    Rows,
    alone,
)
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.prompts import Prompt


def read(
    model: LanguageModel,
    prompt: Prompt,
    inputs: Sequence[Input],
    *,
    room: int,
    informed: Input | None = None,
    on_progress: Progress | None = None,
) -> Rows:
    """The public row and one row per input, documents read.

    Args:
        model: Reads them.
        prompt: Public text before and after the document.
        inputs: What each expert reads; none of them leaves the public row alone.
        room: How many tokens will be drawn at most.
        informed: Public knowledge that the public row reads in a document's place; no expert does.
        on_progress: Called with the part that is read, 0 to 1.
    """
    public = informed or model.digest((prompt.no_document,), model.context_length)
    room += len(prompt.suffix)
    return model.read(prompt.prefix, [public, *inputs], room=room, on_progress=on_progress)


def read_alone(
    model: LanguageModel, prompt: Prompt, *, room: int, informed: Input | None = None
) -> Rows:
    """The public row where there are never experts beside it, see `Solitary`.

    Args:
        model: Reads it.
        prompt: Public text before and after the document.
        room: How many tokens will be appended at most.
        informed: Public knowledge that it reads in a document's place.
    """
    return read(alone(model), prompt, [], room=room, informed=informed)


class BareModel:
    """The public row that reads nothing at all: what it would say by itself.

    Args:
        model: Its rows are ``BlockRows``.
        prompt: Public text before and after the document.
        room: Most tokens behind the prompt.
    """

    def __init__(self, model: LanguageModel, prompt: Prompt, room: int) -> None:
        self._begin = partial(read_alone, model, prompt, room=room)
        self._rows: BlockRows | None = None  # read when they are first asked
        self._read: tuple[int, ...] = ()
        self._first: Step | None = None  # after what was read
        self._known: dict[tuple[int, ...], float] = {}

    def __repr__(self) -> str:
        return "BareModel(<private>)"

    @enough_memory()
    def log_prob(self, before: Sequence[int], tokens: Sequence[int]) -> float:
        """Log-probability of tokens after others that all rows have read.

        Args:
            before: Public.
            tokens: At least one.
        """
        if self._rows is None:
            rows = self._begin()
            assert isinstance(rows, BlockRows)
            self._rows = rows
        if self._first is None or tuple(before) != self._read:
            self._rows.rewind(len(self._read))
            self._first = self._rows.extend(before)
            self._read, self._known = tuple(before), {}
        asked = tuple(tokens)
        if asked not in self._known:
            steps = [self._first]
            if rest := asked[:-1]:
                steps += self._rows.extend_each(rest, len(rest))
                self._rows.rewind(len(rest))
            each = zip(steps, asked, strict=True)
            self._known[asked] = sum(float(step.public[id]) for step, id in each)
        return self._known[asked]


@enough_memory()
def bare_log_probs(model: LanguageModel, prompt: Prompt, tokens: Sequence[int]) -> list[float]:
    """Log-probability of each public token to the public row that reads nothing at all."""
    if not tokens:
        return []
    rows = read_alone(model, prompt, room=len(tokens))
    if isinstance(rows, BlockRows):
        steps = rows.extend_each((*prompt.suffix, *tokens[:-1]), len(tokens))
    else:
        steps = [rows.extend(ids) for ids in (prompt.suffix, *((token,) for token in tokens[:-1]))]
    return [float(step.public[token]) for step, token in zip(steps, tokens, strict=True)]
