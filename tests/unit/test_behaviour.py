"""The same questions give the same answers, labels, charges and ledgers as on 2026-11-21.

behaviour.json was written by ``python -m tests.unit.test_behaviour`` before the rooms were redrawn.
It covers every utility, retriever, accounting and method, with the settings of that day:
``as_before``. What changes on purpose stands in ``CHANGED`` and in the CHANGELOG.
"""

from __future__ import annotations

import json
import random
import tempfile
import warnings
from pathlib import Path

import pytest
import torch

from dpicl_rag import (
    Document,
    Example,
    Ledger,
    PrivateContextLLM,
    PromptTemplate,
    ThresholdRetriever,
    TopKRetriever,
    plan,
)
from dpicl_rag.accounting import Adjacency, Budget
from dpicl_rag.auditing import Subject, SyntheticModel
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.methods import make
from dpicl_rag.retrieval import (
    PoissonSampledRetriever,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
    Search,
)
from tests.support.scored_units import ScoredUnits
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
# Charges of a label by a published method after a priced search: rho before and after. The search
# is now added up in one place, as for labels by utility.
CHANGED = {
    ("poe", "private-threshold"): (2.655288, 2.716976),
    ("poe", "private-top-k"): (3.193601, 3.241530),
    ("poe-prior", "private-threshold"): (2.655288, 2.716976),
    ("poe-prior", "private-top-k"): (3.193601, 3.241530),
    ("votes", "private-threshold"): (2.655288, 2.716976),
    ("votes", "private-top-k"): (3.193601, 3.241530),
    ("votes-gaussian", "private-threshold"): (0.560202, 0.754626),
    ("votes-gaussian", "private-top-k"): (0.625355, 0.754626),
    ("permute-and-flip", "private-threshold"): (4.521631, 4.579259),
    ("permute-and-flip", "private-top-k"): (4.994927, 5.034812),
    ("permute-and-flip-votes", "private-threshold"): (4.521631, 4.579259),
    ("permute-and-flip-votes", "private-top-k"): (4.994927, 5.034812),
}
BEFORE = {"public_power": 1.5, "unsupported": "ignore", "copy_bias": 0.0}
# The worked examples of that day.
TEMPLATE = PromptTemplate(
    examples=(
        Example(
            "From: Ida Brandt\nSubject: Gate pass\nThe gate pass for the Quorvane site costs 35 "
            "crowns. You can fetch it on Fridays.",
            "How much does a gate pass cost?",
            "A gate pass costs 35 crowns.",
        ),
        Example(
            "Hello all, please note that the library is now in Marten Lane. Best, Lou",
            "In which lane is the library?",
            "The library is in Marten Lane.",
        ),
    )
)
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


class OwnCoins:
    """A retriever with a seed of its own, as each had when the figures were written."""

    corpus_name = None

    def __init__(self, retriever, seed: int) -> None:
        self.retriever, self.coins = retriever, SeededRandomness(seed)
        self.stability, self.rho = retriever.stability, retriever.rho

    def search(self, question: str) -> Search:
        search = self.retriever.search(question)
        return Search(search.units, lambda admitted, _: search.choose(admitted, self.coins))


def sources() -> dict[str, object]:
    """A fresh one of every kind of source; random ones have their own seed."""
    units = ScoredUnits(SCORES)
    return {
        "documents": [Document(f"note {at}", f"unit {at % 5}") for at in range(7)],
        "threshold": ThresholdRetriever(units, 0.6),
        "top-k": TopKRetriever(units, 5),
        "poisson": OwnCoins(PoissonSampledRetriever(ThresholdRetriever(units, 0.5), 0.6), 4),
        "private-threshold": OwnCoins(
            PrivateThresholdRetriever(units, 6, sigma=3.0, thresholds=THRESHOLDS, capacity=5), 5
        ),
        "private-top-k": OwnCoins(
            PrivateTopKRetriever(units, 6, sigma=7.5, thresholds=THRESHOLDS), 6
        ),
    }


def private_llm(ledger: Ledger | None = None, **settings: object) -> PrivateContextLLM:
    return PrivateContextLLM(
        SyntheticModel(SIZE, speech, frozenset({SIZE - 1})),
        ledger=ledger,
        corpus="notes",
        seed=7,
        **{**BEFORE, "epsilon": 6.0, "max_tokens": 6, **settings},
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
                [a.text, a.tokens, a.stopped_by, a.rho, a.epsilon, a.delta] for a in (found, again)
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
    given = {**BEFORE, "epsilon": 6.0, "max_tokens": 6, **settings}
    audited = Subject(model, "Which?", given)
    trace = audited.follow(sources()["documents"], list(range(1, tokens + 1)), coins=3)
    return [log_probs.tolist() for log_probs in trace.log_probs]


def small(**settings: object) -> list[object]:
    """An answer of a real, random-weight transformers model."""
    model = build_tiny_model(scale=60.0)
    llm = PrivateContextLLM(
        model, template=TEMPLATE, seed=5, max_tokens=12, **{**BEFORE, **settings}
    )
    found = llm.answer("code?", ["the code is 4471", "the code is 4471 as always", "lunch"])
    return [found.text, found.tokens, found.rho]


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
    return every


def observed(name: str) -> object:
    run, settings = cases()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return json.loads(json.dumps(run(**settings)))


def same(one: object, other: object) -> bool:
    """Equal up to rounding in the last digits of floats."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, (int, float)):
        return one == pytest.approx(other, rel=1e-5, abs=1e-9)
    return one == other


def changed(name: str) -> tuple[float, float] | None:
    kind, *what = name.split()
    return CHANGED.get(tuple(what)) if kind == "method" else None


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Strength for 12 full draws, whatever the search has counted."""
    monkeypatch.setattr(plan, "_PIVOTAL_TOKENS", 12)
    monkeypatch.setattr(plan, "_counted", lambda *_: None)


@pytest.mark.parametrize("name", sorted(cases()))
def test_behaviour_is_what_it_was(name):
    before, now = json.loads(RECORDED.read_text())[name], observed(name)
    if (rho := changed(name)) is None:
        assert same(before, now)
        return
    assert before.keys() == now.keys()
    assert before["label"] == now["label"]
    assert before["charge"][:2] == now["charge"][:2]
    assert (before["charge"][2], now["charge"][2]) == pytest.approx(rho, rel=1e-5)
    assert same(now["scopes"], [["corpus", "notes", now["charge"][2], 50 - now["charge"][2]]])
    assert same(now["left"], [50 - now["charge"][2]] * 12)


if __name__ == "__main__":
    torch.set_num_threads(1)
    RECORDED.write_text(json.dumps({name: observed(name) for name in cases()}, indent=0) + "\n")
