"""Counts and tallies of a made-up corpus: what is told, what is true, and their table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.asked_corpus import kept_model
from dpicl_rag import ConfigurationError, Document, PrivateContextLLM
from dpicl_rag.rehearsal import yes_or_no_of
from dpicl_rag.results import Estimate


@dataclass(frozen=True, slots=True)
class Counts:
    """What is counted in a corpus, and how many units there are of each.

    Attributes:
        questions: Each with the number of units that say yes.
        subject: The question of a tally.
        labels: Each with the number of units.
        documents: All units.
    """

    questions: Mapping[str, int]
    subject: str
    labels: Mapping[str, int]
    documents: Sequence[Document]


def near(told: int, true: int) -> bool:
    """Whether a number is within a tenth of the truth, or four units."""
    return abs(told - true) <= max(4.0, true / 10)


def row(name: str, true: int, told: Estimate) -> tuple[str, ...]:
    """One line of the table."""
    inside = told.low <= true <= told.high
    marks = ("near" if near(told.units, true) else "", "holds it" if inside else "")
    return name, str(true), str(told.units), f"{told.low} to {told.high}", *marks


def count_all(counts: Counts, options: argparse.Namespace) -> None:
    """Ask, and print; a model that cannot count is refused, and says so.

    Args:
        counts: What is asked.
        options: Of `counting_options`.
    """
    console = Console(file=sys.stdout)
    model = kept_model(options)
    documents = list(counts.documents)
    llm = PrivateContextLLM(model, epsilon=options.epsilon)
    console.print(f"by its rehearsal this model {yes_or_no_of(model).clear.verdict}")
    table = Table("question", "true", "told", "interval", "", "")
    asked = list(counts.questions.items())[: options.questions]
    for question, true in track(asked, "counting", console=Console(stderr=True)):
        model.forget()
        try:
            found = llm.count(question, documents, anyway=options.anyway)
        except ConfigurationError as refused:
            console.print(f"{question}: refused: {refused}", markup=False)
            continue
        table.add_row(*row(question, true, found.yes))
    model.forget()
    if not options.no_tally:
        labels = list(counts.labels)
        try:
            tally = llm.tally(counts.subject, labels, documents, anyway=options.anyway)
        except ConfigurationError as refused:
            console.print(f"{counts.subject}: refused: {refused}", markup=False)
            told: Mapping[str, Estimate] = {}
        else:
            told = tally.counts
        for name, estimate in told.items():
            table.add_row(*row(f"tally: {name}", counts.labels[name], estimate))
    console.print(table)


def counting_options(description: str) -> argparse.ArgumentParser:
    """A parser of the options that every such benchmark has.

    Args:
        description: Of the benchmark.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--model", help="folder or name; the packaged one if left out")
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--questions", type=int, help="the first ones alone")
    parser.add_argument("--anyway", action="store_true", help="count though the model cannot")
    parser.add_argument("--no-tally", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/counts"), help="folder")
    return parser
