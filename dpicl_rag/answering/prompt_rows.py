"""Rows of a prompt: the public row alone, with experts, and its likeliest words.

The likeliest words are no part of the guarantee: the product takes them where nothing is private,
from a synthetic corpus, and audits and evaluations compare with them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dpicl_rag.language_models.base import (
    BlockRows,
    Input,
    LanguageModel,
    Progress,
    Rows,
    single_row,
)
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.prompts import Prompt, PromptTemplate

if TYPE_CHECKING:
    import torch


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


def read_public_row(
    model: LanguageModel, prompt: Prompt, *, room: int, informed: Input | None = None
) -> Rows:
    """The public row without experts beside it, see `SingleRowModel`.

    Args:
        model: Reads it.
        prompt: Public text before and after the document.
        room: How many tokens will be appended at most.
        informed: Public knowledge that it reads in a document's place.
    """
    return read(single_row(model), prompt, [], room=room, informed=informed)


class BareModel:
    """The public row that reads nothing at all: what it would say by itself.

    Args:
        model: Its rows are ``BlockRows``.
        prompt: Public text before and after the document.
        room: Most tokens behind the prompt.
    """

    def __init__(self, model: LanguageModel, prompt: Prompt, room: int) -> None:
        self._begin = partial(read_public_row, model, prompt, room=room)
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
    rows = read_public_row(model, prompt, room=len(tokens))
    if isinstance(rows, BlockRows):
        steps = rows.extend_each((*prompt.suffix, *tokens[:-1]), len(tokens))
    else:
        steps = [rows.extend(ids) for ids in (prompt.suffix, *((token,) for token in tokens[:-1]))]
    return [float(step.public[token]) for step, token in zip(steps, tokens, strict=True)]


def greedy_answer(
    model: LanguageModel,
    template: PromptTemplate,
    question: str,
    passages: Sequence[str],
    *,
    max_tokens: int,
    stop: tuple[str, ...] = (),
) -> str:
    """Ordinary RAG: all passages in one prompt, the likeliest token at every step. Not private.

    Args:
        model: Any language model.
        template: The template that the private path uses.
        question: The question.
        passages: Texts put in the document's place; none gives the model's answer by itself.
        max_tokens: Most tokens of the answer.
        stop: The answer ends before any of these.
    """
    prompt = template.cut(model.tokenizer, question)
    room = len(prompt.suffix) + max_tokens
    left = model.context_length - len(prompt.prefix) - room
    document = model.digest(passages, left) or model.digest([template.no_document], left)
    rows = single_row(model).read(prompt.prefix, [document], room=room)
    return likeliest(
        tokenizer=model.tokenizer,
        prompt=prompt,
        extend=lambda tokens: rows.extend(tokens).public,
        start=template.answer_prefix,
        max_tokens=max_tokens,
        stop=stop,
    )


def likeliest(
    tokenizer: Tokenizer,
    prompt: Prompt,
    extend: Callable[[Sequence[int]], torch.Tensor],
    start: str,
    max_tokens: int,
    stop: tuple[str, ...],
) -> str:
    """The likeliest tokens of a row, until a stop token, a stop string or ``max_tokens``.

    Args:
        tokenizer: Of the model.
        prompt: Whose suffix is read first.
        extend: Reads tokens on and gives the row's next scores.
        start: Public words that the answer begins with.
        max_tokens: Most tokens.
        stop: The answer ends before any of these.
    """
    tokens: list[int] = []
    text = start
    for token in likeliest_tokens(extend, prompt.suffix, max_tokens):
        if token in tokenizer.stop_tokens:
            break
        tokens.append(token)
        text = start + tokenizer.decode(tokens)
        cuts = [at for s in stop if (at := text.find(s, len(start))) >= 0]
        if cuts:
            text = text[: min(cuts)]
            break
    return text.strip()


def likeliest_tokens(
    extend: Callable[[Sequence[int]], torch.Tensor], suffix: Sequence[int], max_tokens: int
) -> Generator[int, None, None]:
    """The likeliest tokens of a row, one after the other; those that end a text are among them.

    Args:
        extend: Reads tokens on and gives the row's next scores.
        suffix: Read first.
        max_tokens: Most tokens.
    """
    pending = suffix
    for _ in range(max_tokens):
        token = int(extend(pending).argmax())
        yield token
        pending = (token,)


_TOGETHER = 64  # units that are read in one go
