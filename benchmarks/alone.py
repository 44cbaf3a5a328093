"""How often is one expert right alone? No private answer is right more often than its experts.

``python -m benchmarks.alone nq --questions 200`` asks questions of Natural Questions, each over its
one passage, by the likeliest token at every step; ``medical`` asks for the disease of a record over
that record, and ``mail`` what threads of the demo's mailbox state. Nothing here is private. Data
are found through DPICL_RAG_DATA.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import quality
from demos import email_assistant
from demos.inbox.generator import generate
from dpicl_rag import PrefixCache, PrivateContextLLM, PromptTemplate, load
from dpicl_rag.documents import group_by_unit
from dpicl_research.baselines import expert_alone


@dataclass(frozen=True)
class Case:
    """A question, what one expert reads, and what is right."""

    question: str
    passages: list[str]
    is_right: Callable[[str], bool]


@dataclass(frozen=True)
class Task:
    """Questions, and the settings with which they are asked."""

    cases: list[Case]
    template: PromptTemplate
    max_tokens: int
    stop: tuple[str, ...]


def natural_questions(count: int, seed: int) -> Task:
    """Questions of the web, each with the passage of Wikipedia that answers it."""
    with gzip.open(quality.DATA / "nq_oracle.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    cases = [
        Case(
            row["question"],
            [row["passage"]],
            partial(_gives, row["answers"]),
        )
        for row in random.Random(seed).sample(rows, min(count, len(rows)))
    ]
    return Task(cases, PromptTemplate(), 32, ("\n",))


def medical(count: int, seed: int) -> Task:
    """Records of patients: which disease is it?"""
    asked = quality.make_cases(quality.read_records(), count, seed)
    cases = [Case(case.question, [case.record], partial(_gives, [case.disease])) for case in asked]
    return Task(cases, quality.TEMPLATE, quality.MAX_TOKENS, quality.STOP)


def mail(count: int, seed: int) -> Task:
    """Threads of the demo's mailbox that state one of its facts, as they are read from a file."""
    box = generate()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "support.mbox"
        box.write(path)
        threads = group_by_unit(load(path).documents)
    cases = [
        Case(fact.question, [document.text for document in thread], fact.is_stated_in)
        for fact in box.facts
        for thread in threads.values()
        if any(fact.is_stated_in(document.text) for document in thread)
    ]
    chosen = random.Random(seed).sample(cases, min(count, len(cases)))
    return Task(chosen, email_assistant.TEMPLATE, email_assistant.MAX_TOKENS, ("\n",))


def _gives(answers: Sequence[str], text: str) -> bool:
    return any(quality.names(text, answer) for answer in answers)


TASKS = {"nq": natural_questions, "medical": medical, "mail": mail}


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="seed of the questions")
    parser.add_argument(
        "--copy-bias", type=float, nargs="+", default=[0.0, 1.0], help="one row of the table each"
    )
    parser.add_argument("--verbose", action="store_true", help="show every answer")
    options = parser.parse_args()
    if not quality.DATA.is_dir():
        print("error: no benchmark data; set DPICL_RAG_DATA to its folder", file=sys.stderr)
        return 1
    task = TASKS[options.task](options.questions, options.seed)
    llm = PrivateContextLLM(
        template=task.template,
        max_tokens=task.max_tokens,
        stop=task.stop,
        prefix_cache=PrefixCache(memory=4 << 30),  # documents are read once for all rows
    )
    console = Console(stderr=True)
    right = dict.fromkeys(options.copy_bias, 0)
    for case in track(task.cases, "asking", console=console):
        for bias in right:
            said = expert_alone(llm.with_settings(copy_bias=bias), case.question, case.passages)
            right[bias] += case.is_right(said)
            if options.verbose:
                console.print(f"{bias:g}", case.is_right(said), case.question, "|", said)
    table = Table("copy bias", "one expert alone right", "of", "%", title=options.task)
    for bias, number in right.items():
        asked = len(task.cases)
        table.add_row(f"{bias:g}", str(number), str(asked), f"{100 * number / asked:.1f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
