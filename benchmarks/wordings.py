"""Mailboxes in which every thread words a fact by itself: what becomes of answers?

``python -m benchmarks.wordings --out runs/wordings`` asks three made-up mailboxes for ten facts
each, in two wordings of the question, at epsilon 4, 2 and 1. An answer comes by agreement, token by
token, or not: the documents do not support it, and the answer says so. A wrong one that is said to
be supported is counted apart. Nothing is remembered.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.shared_reading import SharedModel
from benchmarks.worded_facts import KINDS, WORDED, WordedFact, WordingKind
from demos.email_assistant import MAX_TOKENS, TEMPLATE
from demos.inbox.generator import generate
from dpicl_rag import Corpus, PrivateContextLLM, load
from dpicl_rag.answering.canonical_form import canonical_form
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.prefix_cache import PrefixCache

EPSILONS = (4.0, 2.0, 1.0)


@dataclass(frozen=True)
class Outcome:
    """One answer.

    Attributes:
        kind: Of wording.
        epsilon: Of the answer.
        question: What was asked.
        by: How it came about; ``none`` where the documents do not support it.
        right: Whether it gives the value.
        text: The answer.
    """

    kind: str
    epsilon: float
    question: str
    by: str
    right: bool
    text: str


def is_right(fact: WordedFact, text: str) -> bool:
    """Whether a text gives the value, in any of its forms or in the canonical one."""
    values = (*fact.values, *(canonical_form(value) or value for value in fact.values))
    return any(value.casefold() in " ".join(text.split()).casefold() for value in values)


def fill(kind: WordingKind, folder: Path) -> Corpus:
    """A mailbox of all facts in one kind of wording."""
    path = folder / f"{kind}.mbox"
    generate(wordings=[fact.wording(kind) for fact in WORDED]).write(path)
    corpus = Corpus.create(kind, path=folder / "corpora")
    corpus.add(load(path).documents)
    return corpus


def ask(llm: PrivateContextLLM, corpus: Corpus, fact: WordedFact, question: str) -> Outcome:
    """One answer."""
    answer = llm.answer(question, corpus)
    by = answer.by if answer.supported and answer.by else "none"
    right = is_right(fact, answer.text)
    return Outcome(corpus.name, llm.config.epsilon, question, by, right, answer.text)


def show(found: list[Outcome], console: Console) -> None:
    """Print the table."""
    table = Table(title="of answers", title_justify="left")
    columns = (
        "by agreement",
        "by tokens",
        "not supported",
        "wrong by agreement",
        "wrong by tokens",
    )
    for heading in ("wording", "epsilon", "asked", *columns):
        table.add_column(heading)
    for kind in KINDS:
        for epsilon in EPSILONS:
            own = [one for one in found if (one.kind, one.epsilon) == (kind, epsilon)]
            by = Counter(one.by for one in own)
            wrong = Counter(one.by for one in own if not one.right)
            figures = (
                by["agreement"],
                by["tokens"],
                by["none"],
                wrong["agreement"],
                wrong["tokens"],
            )
            table.add_row(kind, f"{epsilon:g}", str(len(own)), *map(str, figures))
    console.print(table)


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--facts", type=int, default=len(WORDED))
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--out", type=Path, default=Path("runs/wordings"), help="folder")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # a seed is not private
    model = SharedModel(default_model().with_cache(PrefixCache(memory=8 << 30)))
    llms = [
        PrivateContextLLM(
            model,
            template=TEMPLATE,
            epsilon=epsilon,
            max_tokens=MAX_TOKENS,
            stop=("\n",),
            seed=options.seed,
        )
        for epsilon in EPSILONS
    ]
    found: list[Outcome] = []
    for kind in options.kinds:
        corpus = fill(kind, options.out)
        facts = WORDED[: options.facts]
        asked = [(fact, text) for fact in facts for text in (fact.question, fact.again)]
        for fact, question in track(asked, kind, console=Console(stderr=True)):
            model.forget()
            found += [ask(llm, corpus, fact, question) for llm in llms]
            lines = [json.dumps(asdict(one)) for one in found]
            (options.out / "answers.jsonl").write_text("\n".join(lines), encoding="utf-8")
    show(found, Console(file=sys.stdout))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
