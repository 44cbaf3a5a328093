"""The same seeds give the same answers, labels, charges, ledgers, syntheses and tables as before.

behaviour.json has a digest of each case, of everything that it gave, with the default settings of
2026-11-23. What is changed on purpose is written anew by ``python -m tests.unit.test_behaviour``
and stands in the CHANGELOG; what is moved about changes nothing here.
"""

from __future__ import annotations

import random
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import get_args
from unittest import mock

import pytest
import torch

from dpicl_rag import Document, Ledger, PrivateContextLLM, ThresholdRetriever, TopKRetriever
from dpicl_rag.accounting import Adjacency, Budget
from dpicl_rag.answering import answer_plan
from dpicl_rag.auditing import Subject, SyntheticModel
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.methods import make
from dpicl_rag.retrieval import (
    PoissonSampledRetriever,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
)
from dpicl_rag.synthesis import synthesis_run
from dpicl_rag.synthesis.examples import synthesise_examples
from dpicl_rag.synthesis.examples_plan import ExamplesMethod
from dpicl_rag.synthesis.pools import LabelledDocument
from dpicl_rag.synthesis.synthetic_corpus import synthesise
from dpicl_rag.tabular.aggregates import release_aggregates
from dpicl_rag.tabular.noisy_tables import release_tables
from tests.support import digests
from tests.support.private_rows import EVERY_ROW, SCHEMA
from tests.support.scored_units import ScoredUnits
from tests.support.scripted_model import ScriptedModel
from tests.support.speaking_model import SpeakingModel
from tests.support.synthesising import short_plan
from tests.support.tiny_model import build_tiny_model

RECORDED = Path(__file__).with_name("behaviour.json")
SIZE = 8
LABELS = ("a", "b", "c", "d")
UTILITIES = ("surplus", "log_ratio", "log_prob", "vote")
METHODS = (
    "poe",
    "poe-prior",
    "votes",
    "votes-gaussian",
    "permute-and-flip",
    "permute-and-flip-votes",
)
METHODS_OF_PAPERS = ("soft", "hard", "poe-groups", "sampling", *METHODS)
SCORES = {f"unit {at}": [0.95 - 0.05 * at, 0.3][: 1 + at % 2] for at in range(12)}
THRESHOLDS = (0.9, 0.8, 0.7, 0.6, 0.5)
SOURCES = (
    "documents",
    "threshold",
    "top-k",
    "poisson",
    "private-threshold",
    "private-top-k",
)


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """Numbers that look random, the same wherever Python runs."""
    dice = random.Random(f"{text}|{history}")
    shared = random.Random(str(history))
    # Documents agree in part, so that strong and weak experts both come up.
    return [3 * dice.gauss(0, 1) + 4 * shared.gauss(0, 1) for _ in range(SIZE)]


def sources() -> dict[str, object]:
    """A fresh one of every kind of source."""
    units = ScoredUnits(SCORES)
    return {
        "documents": [Document(f"note {at}", f"unit {at % 5}") for at in range(7)],
        "threshold": ThresholdRetriever(units, 0.6),
        "top-k": TopKRetriever(units, 5),
        "poisson": PoissonSampledRetriever(ThresholdRetriever(units, 0.5), 0.6),
        "private-threshold": PrivateThresholdRetriever(
            units, 6, sigma=3.0, thresholds=THRESHOLDS, thin_to=5
        ),
        "private-top-k": PrivateTopKRetriever(units, 6, sigma=7.5, thresholds=THRESHOLDS),
    }


def private_llm(ledger: Ledger | None = None, **settings: object) -> PrivateContextLLM:
    return PrivateContextLLM(
        SyntheticModel(SIZE, speech, frozenset({SIZE - 1})),
        ledger=ledger,
        corpus="notes",
        seed=7,
        **{"epsilon": 6.0, "max_tokens": 6, "agreement": "off", **settings},
    )


def booked(ledger: Ledger) -> dict[str, object]:
    """What the ledger holds: the corpus's spend, and what each unit has left."""
    spent = [[s.kind, s.name, s.spent, s.remaining] for s in ledger.status()]
    units = [f"unit {at}" for at in range(12)]
    room = min(s.remaining for s in ledger.status())
    with ledger.reserve(corpus="notes", rho=room, units=units) as reservation:
        return {"scopes": spent, "left": reservation.limits}


def answer(source: str, **settings: object) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder, "l.sqlite")) as ledger:
        individual = settings.get("accounting") != "fixed" and source != "top-k"
        limits = {"unit_rho": 0.9} if individual else {}
        ledger.set_budget(corpus="notes", rho=3.0, **limits)
        llm = private_llm(ledger, **settings)
        found = llm.answer("Which?", sources()[source])
        again = llm.answer("Which?", sources()[source])
        return {
            "answers": [
                [a.text, a.tokens, a.stopped_by, a.supported, a.rho, a.epsilon, a.delta]
                for a in (found, again)
            ],
            **booked(ledger),
        }


def label(source: str, method: str | None = None, **settings: object) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder, "l.sqlite")) as ledger:
        ledger.set_budget(corpus="notes", rho=50.0)
        found = private_llm(ledger, **settings).classify(
            "Which?", sources()[source], LABELS, method=method
        )
        result = {"label": found.label, "charge": [found.epsilon, found.delta, found.rho]}
        return {**result, **booked(ledger)}


def distributions(tokens: int = 3, **settings: object) -> list[list[float]]:
    """What the first draws are made from, along one path, groups by fixed coins."""
    model = SyntheticModel(SIZE, speech, frozenset({SIZE - 1}))
    given = {"epsilon": 6.0, "max_tokens": 6, "agreement": "off", **settings}
    audited = Subject(model, "Which?", given)
    trace = audited.follow(sources()["documents"], list(range(1, tokens + 1)), coins=3)
    return [log_probs.tolist() for log_probs in trace.log_probs]


def small(**settings: object) -> list[object]:
    """An answer of a real, random-weight transformers model."""
    model = build_tiny_model(scale=60.0)
    given = {"max_tokens": 12, "agreement": "off", **settings}
    llm = PrivateContextLLM(model, seed=5, **given)
    found = llm.answer("code?", ["the code is 4471", "the code is 4471 as always", "lunch"])
    return [found.text, found.tokens, found.rho, found.supported]


def published(name: str, adjacency: str, queries: int) -> dict[str, object]:
    """A method's noise, charge and distribution over labels, from fixed rows of a context."""
    method = make(name)
    budget = Budget(3.0, 1e-5, Adjacency(adjacency), queries=queries)
    calibrated = method.calibrate(budget)
    rows = torch.Generator().manual_seed(1)
    views = {
        layout: torch.log_softmax(3 * torch.randn(5, 4, generator=rows).double(), dim=-1)
        for layout in method.layouts(5)
    }
    found = method.distribution(views, calibrated).tolist()
    claimed = method.published(budget)
    return {
        "noise": [calibrated.parameter, calibrated.rho],
        "published": claimed and [claimed.parameter, claimed.rho],
        "distribution": found,
    }


def examples(method: ExamplesMethod) -> list[object]:
    """Texts of two labels by a method of synthesis."""
    private = [LabelledDocument(f"turn-{at % 3}", "xy"[at % 2], f"unit {at}") for at in range(12)]
    found = synthesise_examples(
        *(private, ["x", "y"]),
        method=method,
        epsilon=2.0,
        delta=1e-2,
        max_tokens=3,
        experts=4,
        model=SpeakingModel(5),
        randomness=SeededRandomness(3),
        **({} if method == "exponential" else {"rate": 0.5}),
    )
    return [[asdict(record) for record in found.records], found.epsilon, found.delta, found.rho]


def corpus_of_records() -> list[object]:
    """A synthetic corpus, with the key of its run."""
    notes = [f"{('alpha is red', 'betas is blue')[at % 2]} {at}" for at in range(160)]
    documents = [Document(note, f"unit-{at}") for at, note in enumerate(notes)]
    spoken = {"alpha": "The light is red", "betas": "It was blue", "none": "Nothing"}
    shape = {"topics_per_unit": 2, "batch": 20, "records_per_topic": 2, "epsilon": 60.0}
    with mock.patch.object(synthesis_run.secrets, "token_bytes", lambda size: b"k" * size):
        found = synthesise(
            *(documents, short_plan(6, **shape)),
            model=ScriptedModel(spoken),
            randomness=SeededRandomness(3),
        )
    return [[asdict(record) for record in found.records], found.epsilon, found.delta, found.rho]


def tables(delta: float) -> object:
    """Noisy tables of private rows."""
    coins = SeededRandomness(3)
    return release_tables(EVERY_ROW, SCHEMA, 1.0, delta=delta, randomness=coins).to_json()


def aggregates(rate: float) -> object:
    """An average row for each group."""
    coins = SeededRandomness(3)
    return release_aggregates(EVERY_ROW, SCHEMA, 1.0, rate=rate, randomness=coins).to_json()


def cases() -> dict[str, tuple[object, dict[str, object]]]:
    every: dict[str, tuple[object, dict[str, object]]] = {}
    for utility in UTILITIES:
        for accounting in (None, "fixed"):
            for source in SOURCES:
                settings = {"utility": utility, "accounting": accounting}
                every[f"answer {utility} {accounting} {source}"] = (
                    answer,
                    {"source": source, **settings},
                )
                every[f"label {utility} {accounting} {source}"] = (
                    label,
                    {"source": source, **settings},
                )
        for name, more in {
            "replace": {"adjacency": "replace_one"},
            "groups": {"groups": 3},
            "candidates": {"public_top_k": 3},
            "strength": {"strength": 0.4},
            "default": {},
        }.items():
            every[f"distribution {utility} {name}"] = (distributions, {"utility": utility, **more})
    for method in METHODS:
        for source in SOURCES:
            every[f"method {method} {source}"] = (label, {"source": source, "method": method})
        every[f"method {method} replace"] = (
            label,
            {"source": "documents", "method": method, "adjacency": "replace_one"},
        )
    for name in METHODS_OF_PAPERS:
        for adjacency in ("add_or_remove_one", "replace_one"):
            for queries in (1, 20):
                if name != "sampling" or (adjacency, queries) == ("add_or_remove_one", 1):
                    every[f"published {name} {adjacency} {queries}"] = (
                        published,
                        {"name": name, "adjacency": adjacency, "queries": queries},
                    )
    for name, more in {
        "plain": {},
        "blocks": {"block_tokens": 4},
        "few": {"public_top_k": 8},
    }.items():
        every[f"tiny {name}"] = (small, more)
    for method in get_args(ExamplesMethod):
        every[f"synthesis {method}"] = (examples, {"method": method})
    every["synthesis corpus"] = (corpus_of_records, {})
    for delta in (0.0, 1e-5):
        every[f"tables {delta}"] = (tables, {"delta": delta})
    for rate in (1.0, 0.5):
        every[f"aggregates {rate}"] = (aggregates, {"rate": rate})
    return every


def observed(name: str) -> str:
    """A digest of what a case gives."""
    run, settings = cases()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return digests.digest(run(**settings))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted(cases()))
def test_behaviour_is_what_it_was(name):
    assert digests.is_as_recorded(observed(name), digests.recorded(RECORDED)[name])


def test_nothing_else_is_recorded():
    assert digests.recorded(RECORDED).keys() == cases().keys()


def test_a_strength_that_is_off_by_little_is_seen(monkeypatch):
    honest = answer_plan.strength_for
    monkeypatch.setattr(answer_plan, "strength_for", lambda *given: honest(*given) * (1 + 1e-4))
    name = "answer surplus fixed threshold"
    assert not digests.is_as_recorded(observed(name), digests.recorded(RECORDED)[name])


if __name__ == "__main__":
    torch.set_num_threads(1)
    digests.record(RECORDED, {name: observed(name) for name in cases()})
