"""The draw of a label: one step over its candidates, one draw of the mechanism."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag.answering.experts import Gathered
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.language_models.base import Input, LanguageModel, Progress
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.prompts import Prompt


def draw_label(
    model: LanguageModel,
    prompt: Prompt,
    blank: Prompt | None,
    labels: Sequence[Sequence[int]],
    gathered: Gathered,
    informed: Input,
    randomness: Randomness,
    on_progress: Progress | None = None,
) -> int:
    """Draw one of several labels, and pay for it; the experts are closed in any case.

    Args:
        model: What reads.
        prompt: With the question.
        blank: The same with a content-free question, where a prior is taken out of each expert.
        labels: Tokens of each label.
        gathered: The experts.
        informed: What the public row reads in a document's place.
        randomness: Of the draw.
        on_progress: Called with the part of the documents that is read.

    Returns:
        Index of the label. A DP output.
    """

    def said(prompt: Prompt, on_progress: Progress | None) -> Step:
        rows = read(
            model=model,
            prompt=prompt,
            inputs=gathered.inputs,
            room=max(map(len, labels)),
            informed=informed,
            on_progress=on_progress,
        )
        rows.extend(prompt.suffix)
        return rows.score(labels)

    try:
        with enough_memory():
            step = said(prompt, on_progress)
            if blank is not None:
                # Progress is reported once: the documents are kept for the second question.
                step = step.corrected(said(blank, None))
            return gathered.mechanism.draw(step, gathered.spend, randomness)
    finally:
        gathered.close()
