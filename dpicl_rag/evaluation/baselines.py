"""Answers without privacy, for comparison. Nothing here is part of the guarantee."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.prompts import PromptTemplate


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
    tokenizer = model.tokenizer
    prompt = template.cut(tokenizer, question)
    room = len(prompt.suffix) + max_tokens
    left = model.context_length - len(prompt.prefix) - room
    document = model.digest(passages, left) or model.digest([template.no_document], left)
    rows = model.read(prompt.prefix, [document], room=room)
    pending: Sequence[int] = prompt.suffix
    tokens: list[int] = []
    text = template.answer_prefix
    for _ in range(max_tokens):
        token = int(rows.extend(pending).public.argmax())
        if token in tokenizer.stop_tokens:
            break
        tokens.append(token)
        text = template.answer_prefix + tokenizer.decode(tokens)
        cuts = [at for s in stop if (at := text.find(s, len(template.answer_prefix))) >= 0]
        if cuts:
            text = text[: min(cuts)]
            break
        pending = (token,)
    return text.strip()
