"""One record, token by token: the loop that answers are drawn with, field after field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpicl_rag.answering.decoding import decode
from dpicl_rag.answering.experts import Experts
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.language_models.base import BlockRows, LanguageModel, Rows
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.mechanisms.base import Mechanism
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.prompts import Prompt
from dpicl_rag.synthesis.template import RecordTemplate


def draw_record(
    model: LanguageModel,
    prompt: Prompt,
    template: RecordTemplate,
    experts: Experts[Mechanism],
    randomness: Randomness,
) -> Iterator[int]:
    """Draw the fields of a record; a token is yielded once it is paid for.

    Args:
        model: Reads the documents.
        prompt: Public tokens around a document, up to the first field.
        template: The fields, and the public words between them.
        experts: The experts, how strong they are, and how they pay.
        randomness: Where the coins come from.

    Raises:
        EngineUnavailableError: The engine does not answer.
        ModelError: There is not enough memory.
    """
    tokenizer = model.tokenizer
    between = [template.between(tokenizer, at) for at in range(len(template.fields) - 1)]
    with enough_memory():
        rows = read(model, prompt, experts.inputs, room=template.room(tokenizer))
        suffix: Sequence[int] = prompt.suffix
        for at, field in enumerate(template.fields):
            drawn: list[int] = []
            for token in decode(
                rows=rows,
                suffix=suffix,
                mechanism=experts.mechanism,
                spend=experts.spend,
                randomness=randomness,
                max_tokens=field.tokens,
                stop_tokens=tokenizer.stop_tokens,
            ):
                drawn.append(token)
                yield token
                if field.ended(tokenizer, drawn):
                    break
            if at < len(between):
                kept = drawn[: field.kept(tokenizer, drawn)]
                suffix = [*_unread(rows, drawn, kept), *between[at]]


def _unread(rows: Rows, drawn: Sequence[int], kept: Sequence[int]) -> Sequence[int]:
    """Tokens that stay and that the rows have not read; the rows forget those that do not.

    Rows have read all drawn tokens but the last.
    """
    read_on = len(drawn) - 1
    if len(kept) < read_on and isinstance(rows, BlockRows):
        rows.rewind(read_on - len(kept))
    return kept[read_on:]
