"""The shots of one row of the comparison: real, made up, or written from a task's pool."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from dpicl_rag.accounting import Adjacency
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.synthesis.examples import synthesise_examples
from dpicl_rag.synthesis.examples_plan import METHODS, ExamplesMethod, ExamplesPlan, examples_plan
from dpicl_rag.synthesis.noisy_sums import AdaptiveConstants
from dpicl_rag.synthesis.pools import LabelledDocument, poisson
from dpicl_rag.synthesis.synthesis_run import read_run
from dpicl_rag.synthesis.template import ExampleTemplate
from dpicl_research.film_spans import (
    SPANS,
    SpanTemplate,
    examples_of,
    first_word,
    is_extraction,
)
from dpicl_research.open_writing import NoNoise, OpenWriter
from dpicl_research.paper_protocol import context_of, shuffled
from dpicl_research.published_settings import published_constants
from dpicl_research.tasks import Item, Task

ALL = ":all"
"""After a method's name: all units are read, none are sampled."""

PUBLISHED = "adaptive:published"
"""The adaptive method with the paper's own constants for the epsilon that it claims."""

COMPARED = ("zero-shot", "real", "no-noise", "data-free")
"""Rows to compare with. ``real`` and ``no-noise`` are not private."""

POOLS = {"agnews": 1250, "dbpedia": 357, "trec": 1200, "mitg": 2953, "mitd": 1561}
"""Examples of a label, or of all spans, that a rate is fixed for: about what the data has."""

_TEMPLATES = {
    "agnews": ("Given a label of news type, write news of this type.", "News Type:", "Text:"),
    "dbpedia": (
        "Given a label of document type, write a document of this type.",
        "Document Type:",
        "Text:",
    ),
    "trec": (
        "Given a label of answer type, write a question with such an answer.",
        "Answer Type:",
        "Text:",
    ),
    "mitg": (
        "Given a genre, write a sentence about a film that says the genre.",
        "Genre:",
        "Sentence:",
    ),
    "mitd": (
        "Given a director, write a sentence about a film that names the director.",
        "Director:",
        "Sentence:",
    ),
}

_PUBLISHED_INSTRUCTIONS = {
    "agnews": "Given a label of news type, generate the chosen type of news accordingly.",
    "dbpedia": "Given a label of document type, generate the chosen type of document accordingly.",
    "trec": (
        "Given a label of answer type, generate a question based on the given answer type "
        "accordingly."
    ),
    "mitg": (
        "Given a genre for the film, generate a description accordingly and make sure to include "
        "the given genre in the description."
    ),
    "mitd": (
        "Given a director for the film, generate a description accordingly and make sure to "
        "include the given director in the description."
    ),
}
# AdaDPSyn, Tables 25 and 26, from Tang et al.; what stands before labels and texts is as ours.

Prompts = Literal["ours", "published"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that the results of a run depend on.

    Attributes:
        task: Name of the task.
        data: Digest of its items.
        model: Fingerprint of the model.
        seeds: How many sets of shots and queries.
        shots: Labels that get a text, for each seed.
        queries: For each seed.
        delta: Of every synthesis.
        max_tokens: Most tokens of a text.
        experts: Experts of a token that are expected.
        rate: Public rate of samples.
        candidates: Of the methods that add noise.
        text_tokens: Texts in prompts are cut to this many tokens.
        per_expert: Examples that an expert reads; not of ``exponential``, which has one.
        adaptive: Constants of the adaptive method, by name.
        radius: Public, of ``adaptive`` and ``difference``.
        prompts: Instructions in which texts are written: ours, or those of the papers.
    """

    task: str
    data: str
    model: str
    seeds: int
    shots: int
    queries: int
    delta: float
    max_tokens: int
    experts: int
    rate: float
    candidates: int
    text_tokens: int
    per_expert: int = 1
    adaptive: dict[str, Any] | None = None
    radius: float | None = None
    prompts: Prompts = "ours"


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of the table: a method at an epsilon, or one of ``COMPARED``."""

    name: str
    epsilon: float | None = None


@dataclass(frozen=True, slots=True)
class Shots:
    """Shots of a seed.

    Attributes:
        items: The shots.
        true_epsilon: Cost; 0 without data, None where nothing is private.
        seconds: To write them; None where nothing was written, or not in one go.
    """

    items: tuple[Item, ...]
    true_epsilon: float | None = None
    seconds: float | None = None


def known_labels(task: Task) -> tuple[str, ...]:
    """The public labels that shots are written for.

    Raises:
        ConfigurationError: The task has no public list.
    """
    if task.labels:
        return task.labels
    if task.name not in SPANS:
        raise ConfigurationError(f"{task.name}: synthetic shots need a task with a list of labels")
    return SPANS[task.name]


def shots_of(
    model: LanguageModel,
    task: Task,
    settings: Settings,
    arm: Arm,
    seed: int,
    folder: Path,
    tell: Progress,
) -> Shots:
    """The shots of a seed, and what they cost.

    Raises:
        ConfigurationError: The settings do not fit each other, or cost more than the epsilon.
    """
    names = known_labels(task)
    labels = tuple(names[i] for i in shuffled(f"{seed}/shots", len(names)))[: settings.shots]
    if arm.name == "zero-shot":
        return Shots(())
    if arm.name == "real":
        return Shots(_real(task, labels, seed))
    begun = time.monotonic()
    if arm.name == "no-noise":
        items = _without_noise(model, task, settings, labels, tell)
        return Shots(items, seconds=time.monotonic() - begun)
    own = folder / "texts" / f"{arm.name.replace(':', '-')}-{arm.epsilon or 0:g}-{seed}"
    fresh = not own.exists()
    written = synthesise_examples(
        examples_for(task, labels) if arm.epsilon is not None else [],
        labels,
        model=model,
        template=template_of(task, settings.prompts),
        unit_tokens=settings.text_tokens,
        folder=own,
        on_progress=tell,
        **synthesis_settings(task, settings, arm),
    )
    items = tuple(
        _item(task, record.text, record.label)
        for record in written.records
        if record.text and record.label
    )
    seconds = time.monotonic() - begun if fresh else None
    if arm.epsilon is None:
        return Shots(items, 0.0, seconds)
    return Shots(items, read_run(own).charges["epsilon"], seconds)


def synthesis_settings(task: Task, settings: Settings, arm: Arm) -> dict[str, Any]:
    """Arguments of `synthesise_examples` that set the price and the draws of a row.

    Raises:
        ConfigurationError: AdaDPSyn has no constants for the task and epsilon.
    """
    private = arm.epsilon is not None
    method = arm.name.partition(":")[0] if private else "exponential"
    found: dict[str, Any] = {
        "method": cast("ExamplesMethod", method),
        "epsilon": arm.epsilon or 1.0,  # of no data, nothing is reported
        "delta": settings.delta,
        "max_tokens": settings.max_tokens,
        "experts": settings.experts,
        "rate": None if arm.name.endswith(ALL) else settings.rate,
        "candidates": settings.candidates,
    }
    if method != "exponential":
        found["per_expert"] = settings.per_expert
    if settings.radius is not None and method in ("adaptive", "difference"):
        found["radius"] = settings.radius
    if arm.name == PUBLISHED:
        # Its claim is no budget: what it costs here follows, and is what is shown.
        found |= {"epsilon": None, "adaptive": published_constants(task.name, arm.epsilon or 0)}
        found.pop("radius", None)
    elif settings.adaptive is not None and method == "adaptive":
        found["adaptive"] = AdaptiveConstants(**settings.adaptive)
    if is_extraction(task):
        found["labels_per_unit"] = settings.shots
    return found


def plan_of(task: Task, settings: Settings, arm: Arm) -> ExamplesPlan:
    """The plan of a private row: what it costs, before anything is read."""
    found = {"per_expert": 1, "labels_per_unit": 1, **synthesis_settings(task, settings, arm)}
    return examples_plan(
        found.pop("method"),
        settings.shots,
        texts_per_label=1,
        adjacency=Adjacency.ADD_OR_REMOVE_ONE,
        **found,
    )


def check_prices(task: Task, settings: Settings, rows: Sequence[Arm]) -> None:
    """Plan every private row before the first text is written.

    Raises:
        ConfigurationError: Settings do not fit each other, or cost more than a row's epsilon; or
            the papers have no prompt for the task.
    """
    template_of(task, settings.prompts)
    for arm in rows:
        if arm.epsilon is not None:
            plan_of(task, settings, arm)


def template_of(task: Task, prompts: Prompts = "ours") -> ExampleTemplate:
    """The public template of prompts in which texts are written.

    Raises:
        ConfigurationError: The papers have no prompt for the task.
    """
    words = _TEMPLATES.get(task.name, (ExampleTemplate().instruction, "Label:", "Text:"))
    if prompts == "published":
        if task.name not in _PUBLISHED_INSTRUCTIONS:
            raise ConfigurationError(f"{task.name}: AdaDPSyn has no prompt for it")
        words = (_PUBLISHED_INSTRUCTIONS[task.name], *words[1:])
    return SpanTemplate(*words) if is_extraction(task) else ExampleTemplate(*words)


def arms(methods: Sequence[str], epsilons: Sequence[float]) -> list[Arm]:
    """All rows, those to compare with first.

    Raises:
        ConfigurationError: A method is unknown.
    """
    for name in methods:
        known = name == PUBLISHED or name.removesuffix(ALL) in METHODS
        if not known or name == f"adaptive{ALL}":
            raise ConfigurationError(
                f"unknown method {name!r}: give one of {', '.join(METHODS)}; all but adaptive "
                f"also as NAME{ALL}, without samples; or {PUBLISHED}"
            )
    return [*map(Arm, COMPARED), *(Arm(m, e) for m in methods for e in epsilons)]


def examples_for(task: Task, labels: Sequence[str]) -> list[LabelledDocument]:
    """The task's pool, as what texts for these labels are written from."""
    if is_extraction(task):
        return examples_of(task.pool, labels)
    return [LabelledDocument(item.text, item.answer) for item in task.pool]


def _item(task: Task, text: str, label: str) -> Item:
    return Item(text, first_word(label) if is_extraction(task) else label, label)


def _real(task: Task, labels: Sequence[str], seed: int) -> tuple[Item, ...]:
    """Real examples of the labels; any ones where a label is a text of the query."""
    pool = context_of(task, seed, len(task.pool))
    if is_extraction(task):
        return pool[: len(labels)]
    return tuple(next(i for i in pool if i.answer == label) for label in labels)


def _without_noise(
    model: LanguageModel, task: Task, settings: Settings, labels: Sequence[str], tell: Progress
) -> tuple[Item, ...]:
    groups = None if settings.per_expert == 1 else settings.experts
    writer = OpenWriter(
        model,
        template_of(task, settings.prompts),
        poisson(settings.rate, groups),
        NoNoise(settings.candidates),
        settings.max_tokens,
        settings.text_tokens * settings.per_expert,
    )
    examples, coins, found = examples_for(task, labels), Randomness(), []
    for number, label in enumerate(labels):
        tell(number, len(labels))
        text = writer.write(label, examples, coins)
        found.append(_item(task, text, label))
    return tuple(item for item in found if item.text)
