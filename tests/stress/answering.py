"""A process that answers over one corpus with every default on, and counts what units lose.

Usage: answering.py LEDGER ANSWERS [FAULT]; run by test_unit_lifetime.py. On standard output: one
JSON object with what each unit of `UNITS` really lost to this process, zCDP rho, under either
accounting, and how often what happened.

What a unit loses is computed anew from what was drawn from, beside the filter and the ledger: the
range of what its expert added to the scores of each token, the noisy counts that it was part of,
and the support count if it agreed.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import torch

from dpicl_rag import Ledger, PrivateContextLLM
from dpicl_rag.answering.support import SupportCount
from dpicl_rag.auditing.worst_models import SyntheticModel
from dpicl_rag.errors import BudgetExceededError
from dpicl_rag.knowledge import AnswerMemory
from dpicl_rag.mechanisms.privacy_filters import IndividualFilter
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.retrieval import Candidates, NoisyThreshold, Search
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scored_units import ScoredUnits

CORPUS = "notes"
SIZE = 8
UNITS = [f"unit {number}" for number in range(40)]
STATED = "abcdefg"
"""What those who agree say to the end. Documents that have its words support a drawn text."""

# 39 reach the lowest threshold, more than an answer aims to read, so that many are thinned.
SCORES = {unit: [0.785 - 0.01 * number] for number, unit in enumerate(UNITS)}


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """Three of four documents agree on a token that the public row does not expect."""
    if "unit" not in text:  # the public row, which believes a little of what was released before
        return [2.0 * ("Question" in text and token == len(history)) for token in range(SIZE)]
    agrees = int(text.partition("/")[0].split()[1]) % 4 > 0
    said = len(history) % SIZE if agrees else random.Random(f"{text}{history}").randrange(SIZE)
    return [6.0 * (token == said) for token in range(SIZE)]


class Shadow:
    """What units lose, and how often what happened."""

    def __init__(self) -> None:
        self.lost = {kind: dict.fromkeys(UNITS, 0.0) for kind in ("individual", "fixed")}
        self.seen: Counter[str] = Counter()
        self.accounting = "individual"
        self.reading: list[str] = []

    def lose(self, unit: str, rho: float) -> None:
        self.lost[self.accounting][unit] += rho


class Model(SyntheticModel):
    """Tells which unit each row is of. One for each answer: what it reads first are the units."""

    def __init__(self, shadow: Shadow) -> None:
        super().__init__(SIZE, speech, frozenset({SIZE - 1}))
        self._shadow = shadow
        self._shadow.reading = []
        self._has_read = False

    def read(self, prefix: Any, inputs: Any, **options: Any) -> Any:
        if not self._has_read and len(inputs) > 1:
            # The public row comes first; a proposal is made by it alone.
            self._shadow.reading = [str(text).partition("/")[0] for text in inputs[1:]]
            self._has_read = True
        return super().read(prefix, inputs, **options)


def watch_draws(shadow: Shadow) -> None:
    scores = ExponentialMechanism.scores

    def watched(self: ExponentialMechanism, step: Any, weights: Any = None) -> torch.Tensor:
        experts = len(shadow.reading)
        given = torch.ones(experts, dtype=torch.float64) if weights is None else weights
        for place, unit in enumerate(shadow.reading):
            alone = torch.zeros(experts, dtype=torch.float64)
            alone[place] = given[place]
            added = step.weighted_sum(self.utility, self.strength, alone)
            shadow.lose(unit, float(added.max() - added.min()) ** 2 / 8)
        shadow.seen["draws"] += 1
        shadow.seen["silent"] += int((given == 0).sum())
        return scores(self, step, weights)

    ExponentialMechanism.scores = watched  # type: ignore[method-assign]


def watch_searches(shadow: Shadow) -> None:
    search, choose = Search.search, NoisyThreshold.choose

    def watched(self: Search, question: str) -> Candidates:
        found, places = search(self, question), []

        def chosen(*given: Any) -> Any:
            choice = choose(self.bar, *given)
            places.append(choice.place)
            return choice

        def draw(admitted: Any, randomness: Any) -> Any:
            retrieved = found.choose(admitted, randomness)
            [place] = places
            for unit, counted in zip(found.units, admitted, strict=True):
                if counted and SCORES[unit][0] >= self.bar.thresholds[place]:
                    shadow.lose(unit, 1 / (2 * self.noise.sigma**2))
            reached = sum(score >= self.bar.thresholds[place] for [score] in SCORES.values())
            shadow.seen["thinned"] += len(retrieved.units) < reached
            return retrieved

        vars(self.bar)["choose"] = chosen
        return Candidates(found.units, draw)

    Search.search = watched  # type: ignore[method-assign]


def watch_support(shadow: Shadow) -> None:
    passes = SupportCount.passes

    def watched(
        self: SupportCount, agreeing: torch.Tensor, spend: Any, randomness: Any, **line: float
    ) -> bool:
        pay = spend.pay_aside

        def paid(rho: float, agreeing: torch.Tensor) -> torch.Tensor:
            counted = pay(rho, agreeing)
            for unit, counts in zip(shadow.reading, counted.tolist(), strict=True):
                shadow.lose(unit, counts / (2 * self.noise.sigma**2))
            return counted

        spend.pay_aside = paid
        try:
            return passes(self, agreeing, spend, randomness, **line)
        finally:
            spend.pay_aside = pay

    SupportCount.passes = watched  # type: ignore[method-assign]


def plant(fault: str) -> None:
    """Make the private path forget to charge units for a count."""
    if fault == "support":

        def free(self: IndividualFilter, rho: float, counted: torch.Tensor) -> torch.Tensor:
            return counted & self._able

        IndividualFilter.pay_aside = free  # type: ignore[method-assign]
    elif fault == "search":
        search = Search.search

        def unpaid(self: Search, question: str) -> Candidates:
            found = search(self, question)

            def draw(admitted: Any, randomness: Any) -> Any:
                retrieved = found.choose(admitted, randomness)
                return replace(retrieved, unit_rho=[0.0] * len(retrieved.unit_rho))

            return Candidates(found.units, draw)

        Search.search = unpaid  # type: ignore[method-assign]


def answer(ledger: Ledger, memory: AnswerMemory, shadow: Shadow, *, plain: bool) -> None:
    """One question in one of several settings, closed early at times.

    Args:
        ledger: Shared with the other processes.
        memory: Shared with the other processes.
        shadow: Counts.
        plain: Answer at epsilon 8, token by token, to the end: units that have it support it.
    """
    settings = {
        "epsilon": random.choice([1.0, 4.0, 4.0, 8.0]),
        "max_tokens": SIZE + 1,
        "units": 32,
        "unsupported": random.choice(["mark", "refuse"]),
        "accounting": random.choice(["individual", "individual", "fixed"]),
        "utility": random.choice([None, None, "log_prob"]),
    }
    if plain:
        settings |= {"epsilon": 8.0, "accounting": "individual", "agreement": "off"}
        del settings["unsupported"], settings["utility"]
    shadow.accounting = str(settings["accounting"])
    llm = PrivateContextLLM(
        Model(shadow), ledger=ledger, corpus=CORPUS, knowledge=memory, **settings
    )
    units, question = ScoredUnits(SCORES, f" {STATED}"), f"Question {random.randrange(5)}?"
    if not plain and random.random() < 0.2:
        llm.classify(question, units, ["a", "b", "c"])
        shadow.seen["labels"] += 1
        return
    with llm.stream(question, units, fresh=plain or random.random() < 0.8) as stream:
        for _ in stream:
            if not plain and random.random() < 0.05:
                break
    found = stream.answer
    shadow.seen["supported"] += found.supported is True
    shadow.seen["unsupported"] += found.supported is False
    shadow.seen["informed"] += found.recalled > 0 and found.rho > 0
    shadow.seen["free"] += found.rho == 0


def main() -> None:
    path, answers = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    shadow = Shadow()
    plant(sys.argv[3] if len(sys.argv) > 3 else "")
    watch_draws(shadow)
    watch_searches(shadow)
    watch_support(shadow)
    with (
        Ledger(path, busy_timeout=300.0) as ledger,
        AnswerMemory(
            f"{path}.memory", CORPUS, embedder=BucketEmbedder(), busy_timeout=300.0
        ) as memory,
    ):
        for number in range(answers):
            try:
                answer(ledger, memory, shadow, plain=number == 0)
            except BudgetExceededError:  # of a fixed answer: the corpus has no more to promise
                shadow.seen["refused"] += 1
    print(json.dumps({"lost": shadow.lost, "seen": shadow.seen}))  # noqa: T201


if __name__ == "__main__":
    main()
