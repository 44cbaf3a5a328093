"""An answer that public knowledge proposes and the documents confirm.

Where the public row has read an answer that was released before, it may know this one by itself.
So it is asked first, alone and free of charge. The documents then read its answer in one pass, and
one noisy count says whether most of them support it (`Support.confirms`). That count is all that
the answer costs; where it falls short, tokens are drawn as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpicl_rag.answering.prompt_rows import bare_log_probs, read
from dpicl_rag.language_models.base import Input, LanguageModel
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Proposal:
    """A whole answer of the public row. Public.

    Attributes:
        tokens: Its tokens, with the one that ends it.
        bare: Log-probability of each to the public row that reads no knowledge: support is what
            documents add to that.
    """

    tokens: tuple[int, ...]
    bare: tuple[float, ...]


def propose(
    model: LanguageModel,
    informed_model: LanguageModel,
    prompt: Prompt,
    informed: Input,
    *,
    max_tokens: int,
    stop: Sequence[str],
) -> Proposal | None:
    """The likeliest answer of the public row; None where it does not end, or says nothing.

    Args:
        model: Reads no knowledge.
        informed_model: The same model, as it reads public knowledge.
        prompt: Public text before and after it.
        informed: The knowledge.
        max_tokens: Most tokens.
        stop: Strings that end an answer too.
    """
    tokens = _likeliest(informed_model, prompt, informed, max_tokens, stop)
    if not tokens:
        return None
    return Proposal(tokens, tuple(bare_log_probs(model, prompt, tokens)))


@enough_memory()
def _likeliest(
    model: LanguageModel, prompt: Prompt, informed: Input, max_tokens: int, stop: Sequence[str]
) -> tuple[int, ...]:
    rows = read(model, prompt, [], room=max_tokens, informed=informed)
    tokens: list[int] = []
    pending: Sequence[int] = prompt.suffix
    while len(tokens) < max_tokens:
        tokens.append(int(rows.extend(pending).public.argmax()))
        pending = tokens[-1:]
        text = model.tokenizer.decode([t for t in tokens if t not in model.tokenizer.stop_tokens])
        if tokens[-1] in model.tokenizer.stop_tokens or any(end in text for end in stop):
            return tuple(tokens) if text.strip() else ()
    return ()
