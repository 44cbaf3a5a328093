"""Answers without privacy, for comparison. Nothing here is part of the guarantee."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.prompts import Prompt, PromptTemplate

if TYPE_CHECKING:
    import torch

    from dpicl_rag.private_context_llm import PrivateContextLLM


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
    rows = model.read(prompt.prefix, [document], room=room)
    return _likeliest(
        tokenizer=model.tokenizer,
        prompt=prompt,
        extend=lambda tokens: rows.extend(tokens).public,
        start=template.answer_prefix,
        max_tokens=max_tokens,
        stop=stop,
    )


def expert_alone(llm: PrivateContextLLM, question: str, passages: Sequence[str]) -> str:
    """What one expert of an answer says by itself, the likeliest token at every step. Not private.

    How often it is right is the ceiling of private answers: a mechanism adds experts up, and makes
    none of them better.

    Args:
        llm: The private path; its template and settings are used.
        question: The question.
        passages: Texts of one privacy unit, the best first.
    """
    config, model = llm.config, copying(llm.model, llm.config.copy_bias)
    prompt = llm.template.cut(model.tokenizer, question)
    allowance = prompt.allowance(model, config.unit_tokens, config.max_tokens)
    own = model.digest(passages, allowance)
    rows = read(model, prompt, [own], room=config.max_tokens)

    def expert(tokens: Sequence[int]) -> torch.Tensor:
        step = rows.extend(tokens)
        assert isinstance(step, DenseStep)
        return step.experts[0]

    return _likeliest(
        tokenizer=model.tokenizer,
        prompt=prompt,
        extend=expert,
        start=llm.template.answer_prefix,
        max_tokens=config.max_tokens,
        stop=config.stop,
    )


def _likeliest(
    tokenizer: Tokenizer,
    prompt: Prompt,
    extend: Callable[[Sequence[int]], torch.Tensor],
    start: str,
    max_tokens: int,
    stop: tuple[str, ...],
) -> str:
    """The likeliest token of a row at every step, until a stop token, string or ``max_tokens``."""
    pending: Sequence[int] = prompt.suffix
    tokens: list[int] = []
    text = start
    for _ in range(max_tokens):
        token = int(extend(pending).argmax())
        if token in tokenizer.stop_tokens:
            break
        tokens.append(token)
        text = start + tokenizer.decode(tokens)
        cuts = [at for s in stop if (at := text.find(s, len(start))) >= 0]
        if cuts:
            text = text[: min(cuts)]
            break
        pending = (token,)
    return text.strip()
