"""What people get who set nothing: answers, streams, memory, prices and refusals, as they were.

behaviour_by_default.json has a digest of each case, made by
``python -m tests.unit.test_behaviour_by_default``; see `tests.unit.test_behaviour` for when.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from dpicl_rag import (
    AnswerMemory,
    Document,
    Ledger,
    PrivateContextLLM,
    PromptTemplate,
    ThresholdRetriever,
    TopKRetriever,
)
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.errors import DPICLError
from dpicl_rag.mechanisms.randomness import NotPrivateWarning
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.retrieval import (
    PoissonSampledRetriever,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
)
from tests.support import digests
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scored_units import ScoredUnits
from tests.support.scripted_model import ScriptedModel
from tests.support.scripted_reader import ScriptedReader, document_of

RECORDED = Path(__file__).with_name("behaviour_by_default.json")
QUESTION = "When does the depot open?"
REWORDED = "At what time does the depot open?"
SAID = {
    "seven": "The depot opens at seven.",
    "early": "It opens at 7.",
    "noon": "The depot opens at noon.",
    "User:": "When does the depot open on Fridays?",
    "": "I cannot know that.",
}
KINDS = ("seven", "seven", "early at 7", "seven", "noon")
"""Of five units: most say the same, one does in other words, one says something else."""
UNITS = [f"The depot opens {KINDS[at % 5]}, note {at}" for at in range(40)]
THRESHOLDS = (0.9, 0.8, 0.7, 0.6, 0.5)
SIZE = 8
NOON = 1_800_000_000.0
"""Of one day, which budgets renew after."""


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """Numbers that look random, the same wherever Python runs; units agree in part."""
    dice, shared = random.Random(f"{text}|{history}"), random.Random(str(history))
    return [3 * dice.gauss(0, 1) + 4 * shared.gauss(0, 1) for _ in range(SIZE)]


MODELS = {
    "agreeing": ScriptedModel(SAID),
    "mixed": SyntheticModel(SIZE, speech, frozenset({SIZE - 1})),
}


def sources() -> dict[str, Any]:
    """A fresh one of every kind of source."""
    units = ScoredUnits({unit: [0.97 - 0.02 * at] for at, unit in enumerate(UNITS)})
    return {
        "documents": [Document(unit, unit) for unit in UNITS[:30]],
        "nothing": [],
        "corpus": units,
        "threshold": ThresholdRetriever(units, 0.5),
        "top-k": TopKRetriever(units, 20),
        "poisson": PoissonSampledRetriever(ThresholdRetriever(units, 0.3), 0.8),
        "private-threshold": PrivateThresholdRetriever(
            units, 20, sigma=6.0, thresholds=THRESHOLDS, thin_to=18
        ),
        "private-top-k": PrivateTopKRetriever(units, 20, sigma=20.0, thresholds=THRESHOLDS),
    }


class Knows:
    """Public knowledge that is one text."""

    def recall(self, question: str) -> list[str]:
        return ["The depot opens at noon, says the sign."]


def read_out(prompt: str) -> str:
    """A note of a document; fluent words for what was released; a question made whole."""
    if "Document:\n" not in prompt:
        return f"Well: {prompt[-40:]}"
    text = document_of(prompt)
    return next((said for word, said in SAID.items() if word and word in text), "")


@contextmanager
def asking(
    model: str = "agreeing",
    remembers: bool = False,
    budget: dict[str, Any] | None = None,
    **settings: Any,
) -> Iterator[tuple[PrivateContextLLM, Ledger]]:
    """What answers, with its ledger and nothing set but its coins."""
    path = Path("l.sqlite")
    with TemporaryDirectory() as folder, Ledger(folder / path, clock=lambda: NOON) as ledger:
        ledger.set_budget(corpus="notes", **{"rho": 20.0, "thresholds": 0.5, **(budget or {})})
        memory = Path(folder, "m.sqlite")
        with AnswerMemory(memory, "notes", embedder=BucketEmbedder()) as remembered:
            given = {"knowledge": remembered, **settings} if remembers else settings
            llm = PrivateContextLLM(
                *([] if model == "none" else [MODELS[model]]),
                **{"ledger": ledger, "corpus": "notes", "seed": 7, **given},
            )
            yield llm, ledger


def numbers(answer: PrivateAnswer) -> list[object]:
    """All that an answer has."""
    return [
        *(answer.text, answer.question, answer.released, answer.corpus, answer.tokens),
        *(answer.stopped_by, answer.by, answer.supported, answer.agreeing, answer.agreeing_within),
        *(answer.from_memory, answer.recalled, answer.rho, answer.epsilon, answer.delta),
        answer._repr_html_(),
    ]


def answered(
    source: str = "documents",
    questions: tuple[str, ...] = (QUESTION, QUESTION),
    how: dict[str, Any] | None = None,
    strings: bool = False,
    **given: Any,
) -> list[object]:
    """Answers one after the other, or why there is none, and what they left in the ledger."""
    found: list[object] = []
    with asking(**given) as (llm, ledger):
        llm = llm.for_strings() if strings else llm
        for question in questions:
            try:
                found += numbers(llm.answer(question, sources()[source], **(how or {})))
            except DPICLError as error:
                found.append(refused(error))
        return [*found, digests.booked(ledger, "notes", UNITS)]


def refused(error: DPICLError) -> list[object]:
    return ["refused", type(error).__name__, str(error)]


def streamed(source: str, most: int = 99, later: bool = False, **given: Any) -> list[object]:
    """Pieces of a stream, at most so many, and what it was when it was closed."""

    async def read(llm: PrivateContextLLM) -> tuple[list[str], PrivateAnswer]:
        pieces: list[str] = []
        async with llm.astream(QUESTION, sources()[source]) as stream:
            async for piece in stream:
                pieces.append(piece)
                if len(pieces) == most:
                    break
        return pieces, stream.answer

    with asking(**given) as (llm, ledger):
        if later:
            pieces, answer = asyncio.run(read(llm))
        else:
            with llm.stream(QUESTION, sources()[source]) as stream:
                pieces = list(itertools.islice(stream, most))
            answer = stream.answer
        return [pieces, numbers(answer), digests.booked(ledger, "notes", UNITS)]


def chosen(source: str, **given: Any) -> list[object]:
    """A label with nothing set."""
    with asking(model="mixed", **given) as (llm, ledger):
        try:
            label = llm.classify("Which?", sources()[source], ("a", "b", "c", "d"))
        except DPICLError as error:
            return [refused(error), digests.booked(ledger, "notes", UNITS)]
        found = [label.label, label.rho, label.epsilon, label.delta, label._repr_html_()]
        return [*found, digests.booked(ledger, "notes", UNITS)]


def planned(source: str, **given: Any) -> list[object]:
    """A price, as it is printed, as it is shown in notebooks, and as numbers."""
    with asking(**given) as (llm, _):
        try:
            cost = llm.plan(sources()[source])
        except DPICLError as error:
            return refused(error)
        return [str(cost), cost._repr_html_(), cost.as_dict(), llm.budget_left("notes")]


def written_down(**settings: Any) -> list[object]:
    """What is said of settings that are wrong."""
    try:
        PrivateContextLLM(MODELS["mixed"], **settings)
    except DPICLError as error:
        return refused(error)
    raise AssertionError("nothing was refused")


def wrongly_asked(documents: object, question: str = QUESTION, **how: Any) -> list[object]:
    """What is said of a question that cannot be asked."""
    with asking() as (llm, ledger):
        try:
            llm.answer(question, documents, **how)
        except (DPICLError, TypeError) as error:
            return [type(error).__name__, str(error), digests.booked(ledger, "notes", UNITS)]
    raise AssertionError("nothing was refused")


TURNS = (("user", QUESTION), ("assistant", "It opens at seven."))
INSTRUCTED = PromptTemplate(system="Answer as a clerk.", answer_prefix="It is ")
READER: dict[str, Any] = {"reader": ScriptedReader(read_out)}
ONCE = (QUESTION,)
POOR: dict[str, Any] = {
    "budget": {"rho": 1e-4},
    "strict budget": {"rho": 0.5, "strict": True},
    "monthly budget": {"rho": 0.5, "strict": True, "period": "month"},
    "unit budget": {"rho": 3.0, "unit_rho": 0.6},
    "delta": {"rho": 20.0, "thresholds": 0.0},
}
WAYS: dict[str, dict[str, Any]] = {
    "greeted": {"questions": ("Hi!", "Thanks a lot.", "Hi! " + QUESTION)},
    "strings": {"strings": True},
    "strings, unsupported": {"strings": True, "source": "nothing"},
    "sentences": {"sentences": 2, "questions": ONCE},
    "short": {"max_tokens": 3},
    "stop": {"stop": ("opens",)},
    "blocks": {"block_tokens": 4},
    "candidates": {"public_top_k": 3},
    "groups": {"groups": 25},
    "replace": {"adjacency": "replace_one"},
    "fixed": {"accounting": "fixed"},
    "epsilon 2": {"epsilon": 2.0},
    "units 12": {"units": 12, "source": "corpus"},
    "ignore": {"unsupported": "ignore"},
    "refuse": {"unsupported": "refuse"},
    "template": {"template": INSTRUCTED},
    "no ledger": {"ledger": None},
    "caller": {"caller": "ann"},
    "remembering": {"remembers": True, "questions": (QUESTION, QUESTION, REWORDED)},
    "fresh": {"remembers": True, "how": {"fresh": True}},
    "of a sign": {"knowledge": Knows()},
    "reader": {**READER, "questions": ONCE},
    "reader alone": {**READER, "model": "none", "agreement": "only", "questions": ONCE},
    "polished": {**READER, "polish": True, "questions": ONCE},
    "thinned": {**READER, "max_calls": 20, "questions": ONCE},
    "follow-up": {"how": {"turns": TURNS}, "questions": ("And on Fridays?", "Hi!", QUESTION)},
    "instructed": {"how": {"turns": TURNS}, "template": INSTRUCTED, "questions": ("Why?",)},
    "read follow-up": {**READER, "how": {"turns": TURNS}, "questions": ("And on Fridays?",)},
    **{f"poor in {what}": {"budget": one} for what, one in POOR.items()},
    **{f"only, poor in {w}": {"budget": one, "agreement": "only"} for w, one in POOR.items()},
}
WRONG: dict[str, dict[str, Any]] = {
    "no documents": {"documents": None},
    "one string": {"documents": "note"},
    "a number": {"documents": 3},
    "no pairs": {"documents": [], "turns": ("Hello.",)},
    "long": {"documents": [], "question": "why " * 400_000},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": 0.0},
    "delta": {"delta": 1.0},
    "kind": {"max_tokens": "many"},
    "near": {"epsilom": 1.0},
    "sampler": {"temperature": 0.5},
    "prompt": {"system": "Be brief."},
    "k": {"k": 4},
    "reader": {"polish": True},
    "clip": {"clip": -1.0},
    "choice": {"agreement": "on"},
}


def cases() -> dict[str, tuple[Any, dict[str, Any]]]:
    every: dict[str, tuple[Any, dict[str, Any]]] = {}
    for source in sources():
        for model in MODELS:
            every[f"answer {model} {source}"] = (answered, {"source": source, "model": model})
        drawn = {"model": "mixed", "agreement": "auto"}
        every[f"answer drawn {source}"] = (answered, {"source": source, **drawn})
        for agreement in ("auto", "only", "off"):
            given = {"source": source, "agreement": agreement, "questions": ONCE}
            every[f"answer {agreement} {source}"] = (answered, given)
            every[f"plan {agreement} {source}"] = (
                planned,
                {"source": source, "agreement": agreement},
            )
        every[f"label {source}"] = (chosen, {"source": source})
        every[f"label in groups {source}"] = (chosen, {"source": source, "groups": 5})
        every[f"plan booked {source}"] = (planned, {"source": source})
        every[f"plan free {source}"] = (planned, {"source": source, "ledger": None})
    for name, given in WAYS.items():
        every[f"way {name.replace(' ', '-')}"] = (answered, given)
    for name, given in {
        "epsilon-1": {"epsilon": 1.0},
        "fixed": {"accounting": "fixed"},
        "ignore": {"unsupported": "ignore"},
        "sentences": {"sentences": 3},
        "vote": {"utility": "vote"},
        "replace": {"adjacency": "replace_one"},
        "reader": READER,
        "thinned": {**READER, "max_calls": 10},
        "poor": {"budget": {"rho": 0.5}},
    }.items():
        every[f"plan {name}"] = (planned, {"source": "corpus", **given})
    for later in (False, True):
        how = "async" if later else "sync"
        for model in MODELS:
            given = {"source": "corpus", "model": model, "later": later}
            every[f"stream {how} {model}"] = (streamed, given)
            every[f"stream {how} {model}-closed"] = (streamed, {**given, "most": 1})
        given = {"source": "corpus", **drawn, "later": later}
        every[f"stream {how} drawn"] = (streamed, given)
        every[f"stream {how} drawn-closed"] = (streamed, {**given, "most": 1})
        off = {"source": "documents", "agreement": "off", "later": later}
        every[f"stream {how} off"] = (streamed, off)
        every[f"stream {how} off-closed"] = (streamed, {**off, "most": 2})
        every[f"stream {how} held"] = (streamed, {**off, "unsupported": "refuse"})
    for name, given in WRONG.items():
        every[f"asked wrongly {name.replace(' ', '-')}"] = (wrongly_asked, given)
    for name, given in SETTINGS.items():
        every[f"set wrongly {name}"] = (written_down, given)
    return every


def found(name: str) -> object:
    """What a case gives, and the warnings beside it."""
    run, settings = cases()[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = run(**settings)
    ours = [one for one in caught if one.category.__module__.startswith("dpicl_rag")]
    return [given, [str(one.message) for one in ours if one.category is not NotPrivateWarning]]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", sorted(cases()))
def test_behaviour_by_default_is_what_it_was(name):
    assert digests.is_as_recorded(digests.digest(found(name)), digests.recorded(RECORDED)[name]), (
        found(name)
    )


def test_nothing_else_is_recorded():
    assert digests.recorded(RECORDED).keys() == cases().keys()


if __name__ == "__main__":
    torch.set_num_threads(1)
    digests.record(RECORDED, {name: digests.digest(found(name)) for name in cases()})
