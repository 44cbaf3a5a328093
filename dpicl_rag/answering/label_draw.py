"""The draw of a label: one step over its candidates, one draw of the mechanism."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpicl_rag.answering.experts import Gathered
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.language_models.base import Input, LanguageModel, Progress
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.mechanisms.base import Mechanism
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.prompts import Prompt


def label_step(
    model: LanguageModel,
    prompt: Prompt,
    blank: Prompt | None,
    labels: Sequence[Sequence[int]],
    inputs: Sequence[Input],
    informed: Input | None = None,
    on_progress: Progress | None = None,
) -> Step:
    """The rows over some labels.

    Args:
        model: What reads.
        prompt: With the question.
        blank: The same with a content-free question, where a prior is taken out of each expert.
        labels: Tokens of each label.
        inputs: What each expert reads. Private.
        informed: What the public row reads in a document's place.
        on_progress: Called with the part of the documents that is read.
    """

    def said(prompt: Prompt, on_progress: Progress | None) -> Step:
        rows = read(
            model=model,
            prompt=prompt,
            inputs=inputs,
            room=max(map(len, labels)),
            informed=informed,
            on_progress=on_progress,
        )
        rows.extend(prompt.suffix)
        return rows.score(labels)

    step = said(prompt, on_progress)
    # Progress is reported once: the documents are kept for the second question.
    return step if blank is None else step.corrected(said(blank, None))


def draw_label(
    gathered: Gathered[Mechanism], step: Callable[[], Step], randomness: Randomness
) -> int:
    """Draw one of several labels, and pay for it; the experts are closed in any case.

    Args:
        gathered: The experts.
        step: Their rows over the labels.
        randomness: Of the draw.

    Returns:
        Index of the label. A DP output.

    Raises:
        StoppedError: It was ended before the draw.
    """
    with gathered.paying(), enough_memory():
        return gathered.mechanism.draw(step(), gathered.spend, randomness)
