"""Ordinary answers: the likeliest token at every step. Not private, and no part of the guarantee.

The product gives one where nothing is private, from a synthetic corpus; audits and evaluations
compare with it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from dpicl_rag.language_models.base import LanguageModel, alone
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.prompts import Prompt, PromptTemplate

if TYPE_CHECKING:
    import torch


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
    rows = alone(model).read(prompt.prefix, [document], room=room)
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
