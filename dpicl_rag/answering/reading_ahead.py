"""Reading documents before anybody asks, so that the first question finds them read."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag.answering.experts import Expert
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.prompts import Prompt

_TOGETHER = 64  # units that are read in one go


def read_ahead(
    model: LanguageModel,
    prompt: Prompt,
    experts: Sequence[Expert],
    allowance: int,
    on_progress: Progress | None = None,
) -> int:
    """Read experts of one passage into the model's prefix cache.

    Args:
        model: What reads, and keeps what it has read.
        prompt: Its public words before a document.
        experts: Those of several passages are left out: their order is the question's.
        allowance: Most tokens of an expert.
        on_progress: Called with the part that is done.

    Returns:
        How many were read. Private.
    """
    alone = [expert for expert in experts if len(expert.passages) == 1]
    # Of similar lengths together, so that no pass is mostly padding.
    alone.sort(key=lambda expert: len(expert.passages[0]))
    for first in range(0, len(alone), _TOGETHER):
        some = alone[first : first + _TOGETHER]
        digested = (model.digest(expert.passages, allowance) for expert in some)
        read(model, prompt, [own for own in digested if own], room=0)
        if on_progress is not None:
            on_progress(min(1.0, (first + _TOGETHER) / len(alone)), 1.0)
    return len(alone)
