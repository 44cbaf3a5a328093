"""Few-shot accuracy from synthetic examples, beside the same prompts with other examples.

For every seed some labels are drawn, each gets one text, and queries are labelled with these texts
as shots. Rows to compare with: no shots at all, real shots and shots written without noise (neither
is private), and shots that the model wrote without any data (epsilon 0). A small model follows the
labels in its prompt; so accuracy is given too with the prompt's prior taken out, as ``poe-prior``
does it (Zhao et al. 2021). Where answers are extracted, what the model writes is compared with the
span, letter by letter.

The data is public. Coins of texts are secret all the same, so a run cannot be repeated, only kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from statistics import fmean
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.prompts import CONTENT_FREE
from dpicl_research.film_spans import ANSWER_TOKENS, is_extraction
from dpicl_research.label_scores import Scorer, shares_right
from dpicl_research.paper_protocol import data_digest, queries_of
from dpicl_research.run_folder import Results, going_on
from dpicl_research.synthetic_report import RESULTS
from dpicl_research.synthetic_shots import (
    POOLS,
    Arm,
    Settings,
    check_prices,
    known_labels,
    shots_of,
)
from dpicl_research.tasks import Item, Task


def settings_for(task: Task, model: LanguageModel, rate: float | None, **given: Any) -> Settings:
    """Settings of a run; the rate of a known task is fixed.

    Raises:
        ConfigurationError: The task is a file and has no rate, or has no list of labels.
    """
    labels = known_labels(task)
    if rate is None and task.name not in POOLS:
        raise ConfigurationError("give the public --rate of samples; a task file has none")
    if given["shots"] > len(labels) or min(given["shots"], given["seeds"]) < 1:
        raise ConfigurationError("shots and seeds are 1 or more, and shots at most the labels")
    size = given["experts"] * given.get("per_expert", 1)
    known = min(1.0, size / POOLS.get(task.name, 1)) if rate is None else rate
    return Settings(task.name, data_digest(task), model.fingerprint, rate=known, **given)


def kept(settings: Settings) -> dict[str, Any]:
    """Settings as a folder keeps them: what is as it was before they could be given is left out."""
    return {
        field.name: value
        for field in fields(settings)
        if (value := asdict(settings)[field.name]) != field.default
    }


def run(
    model: LanguageModel,
    task: Task,
    settings: Settings,
    rows: Sequence[Arm],
    folder: Path,
    on_progress: Progress | None = None,
) -> None:
    """Write and score what the folder does not have yet.

    Args:
        model: Writes and labels.
        task: The task.
        settings: Of the run.
        rows: What is compared.
        folder: Where texts and results are kept.
        on_progress: Called with sets of shots that are done, in fractions of texts, and with all.

    Raises:
        ConfigurationError: The folder holds other settings, or another process is at it; a number
            is outside its range, or a row costs more than its epsilon.
    """
    check_prices(task, settings, rows)
    scorer = Scorer(model, task, settings.text_tokens)
    places = [(arm.name, arm.epsilon, n) for n in range(settings.seeds) for arm in rows]
    with going_on(folder, kept(settings), free="seeds"):
        results = Results(folder / RESULTS, "arm", "epsilon", "seed")
        for name, epsilon, seed in results.missing(places, on_progress):

            def tell(done: float, texts: float | None) -> None:
                if on_progress is not None:
                    on_progress(results.reached + done / (texts or 1), len(places))

            shots = shots_of(model, task, settings, Arm(name, epsilon), seed, folder, tell)
            queries = queries_of(task, seed, settings.queries, "accuracy")
            score = _extracted if is_extraction(task) else _accuracy
            found = score(scorer, shots.items, queries)
            cost = {"true_epsilon": shots.true_epsilon, "seconds": shots.seconds}
            results.add((name, epsilon, seed), {**cost, **found})


def _accuracy(
    scorer: Scorer, shots: Sequence[Item], queries: Sequence[Item]
) -> dict[str, float | None]:
    """Share of queries labelled right, as they are and with the prompt's prior taken out."""
    whole = tuple(range(len(shots)))
    prior = scorer.score(shots, CONTENT_FREE, scorer.choice(queries[0]), [whole])[whole]
    said = []
    for query in queries:
        choice = scorer.choice(query)
        row = scorer.score(shots, query.text, choice, [whole])[whole]
        said.append((row, choice.right))
    return dict(zip(("accuracy", "corrected"), shares_right(said, prior), strict=True))


def _extracted(
    scorer: Scorer, shots: Sequence[Item], queries: Sequence[Item]
) -> dict[str, float | None]:
    """Share of queries whose answer is the span, letter by letter."""
    answers = [scorer.written(shots, query.text, ANSWER_TOKENS) for query in queries]
    right = [said == query.shown for said, query in zip(answers, queries, strict=True)]
    return {"accuracy": fmean(right), "corrected": None}
