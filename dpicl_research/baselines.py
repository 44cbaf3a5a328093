"""Answers without privacy, for comparison. Nothing here is part of the guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpicl_rag.answering.prompt_rows import likeliest, read
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.mechanisms.step import DenseStep

if TYPE_CHECKING:
    import torch

    from dpicl_rag.private_context_llm import PrivateContextLLM


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

    return likeliest(
        tokenizer=model.tokenizer,
        prompt=prompt,
        extend=expert,
        start=llm.template.answer_prefix,
        max_tokens=config.max_tokens,
        stop=config.stop,
    )
