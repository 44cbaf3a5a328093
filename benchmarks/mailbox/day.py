"""A day with the mailbox: what twenty kinds of people get to know from it.

``python -m benchmarks.mailbox.day --model FOLDER`` puts 100 questions to the mailbox, in an order
that a seed draws: facts in several wordings and languages, how many, what it is about, comparisons,
small talk, and questions about one person, which must stay without an answer. No thread may lose
more than epsilon 8 in all. Ways: ``answers`` takes every question for one of a fact, as it was
before questions had a kind; ``any`` asks by its kind; ``published`` reads a bundle first, which one
budget of epsilon 4 bought, and asks with what is left. What was asked stands in a file, so an
interrupted day goes on where it was.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
import tomllib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.asked_corpus import asking_options, kept_model
from benchmarks.lifetime import DELTA, LIFETIME
from benchmarks.mailbox.counts import documents_of
from benchmarks.mailbox.made_mailbox import Thread, make_threads
from benchmarks.shared_reading import SharedModel
from dpicl_rag import Bundle, Corpus, DPICLError, Ledger, PrivateContextLLM, publish
from dpicl_rag.knowledge import AnswerMemory
from dpicl_rag.knowledge.bundle import ABOUT
from dpicl_rag.requests import Request
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.surveys.survey_results import PrivateCount, PrivateTally

NEAR, NEAR_UNITS = 0.1, 4.0
BOUGHT = 4.0  # epsilon of a bundle
WAYS = ("answers", "any", "published")
_DAY = tomllib.loads(files("benchmarks.mailbox").joinpath("day.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Wish:
    """What somebody wants to know.

    Attributes:
        who: Asks.
        text: The question.
        wants: ``fact``, ``count``, ``compare``, ``themes``, ``refused`` or ``talk``.
        of: The topic or topics that it is about, or what is compared.
    """

    who: str
    text: str
    wants: str
    of: Any

    def is_met(self, result: Any, threads: Sequence[Thread]) -> bool:
        """Whether a result is right; what must stay without an answer is met by silence."""
        if self.wants == "talk":
            return isinstance(result, PrivateAnswer) and result.by == "public"
        if self.wants == "refused":
            return isinstance(result, PrivateAnswer) and not result.supported
        if self.wants == "count":
            return isinstance(result, PrivateCount) and _is_near(
                result.yes.units, _threads(self.of, threads)
            )
        if self.wants == "compare":
            return isinstance(result, PrivateTally) and _same_order(result, self.of, threads)
        if isinstance(result, PrivateAnswer) and not result.supported:
            return False
        if self.wants == "themes":
            wanted = _DAY["themes"]
            return _hits(wanted["right"], result.text) >= wanted["least"]
        wanted = _DAY["right"][self.of]
        return isinstance(result, PrivateAnswer) and _hits(wanted, result.text) == len(wanted)


def _hits(expressions: Sequence[str], text: str) -> int:
    return sum(re.search(one, text, re.IGNORECASE) is not None for one in expressions)


def _threads(topics: Any, threads: Sequence[Thread]) -> int:
    """How many threads are of some topics, or in a language."""
    if isinstance(topics, str):
        return sum(thread.language == topics for thread in threads)
    return sum(thread.topic in topics for thread in threads)


def _is_near(told: float, truth: int) -> bool:
    return abs(told - truth) <= max(NEAR * truth, NEAR_UNITS)


def _same_order(found: PrivateTally, of: Mapping[str, Any], threads: Sequence[Thread]) -> bool:
    """Whether what is named most is so by the truth. A label has words of what it stands for."""
    truth = Counter({name: _threads(topics, threads) for name, topics in of.items()})
    most = max(found.counts, key=lambda label: found.counts[label].units)
    return truth.most_common(1)[0][0].casefold() in most.casefold()


def wishes() -> list[Wish]:
    """All that is asked, by whom."""
    found = []
    for person in _DAY["person"]:
        for asked in person["asks"]:
            text, of = asked["text"], {**asked}
            del of["text"]
            ((wants, about),) = of.items()
            found.append(
                Wish(person["who"], text, "count" if wants == "language" else wants, about)
            )
    return found


def day(count: int, seed: int) -> list[Wish]:
    """Wishes in the order of a day: everybody once, and then again by chance."""
    draw, every = random.Random(seed), wishes()
    return [*draw.sample(every, len(every)), *draw.choices(every, k=count)][:count]


def _asked(llm: PrivateContextLLM, way: str, text: str, corpus: Corpus) -> Any:
    return llm.answer(text, corpus) if way == "answers" else llm.ask(text, corpus)


def _published(llm: PrivateContextLLM, corpus: Corpus, folder: Path) -> Bundle:
    """What an owner would publish: what it is about, and what is asked most, without a look."""
    if (folder / "bundle").exists():
        return Bundle.open(folder / "bundle")
    asked = [Request.of(None, question=ABOUT)]
    asked += [Request.of("answer", question=question) for question in _DAY["published"]]
    return publish(llm, corpus, folder / "bundle", asked, epsilon=BOUGHT, delta=DELTA)


def main() -> int:
    """Read the command line and spend the day."""
    parser = asking_options(__doc__ or "", "runs/day")
    parser.add_argument("--seed", type=int, default=0, help="of the order and the noise")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.set_defaults(epsilons=[2.0], questions=100)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a seed is not private
    threads = make_threads(0)
    model = kept_model(options)
    table = Table("way", "asked", "right", "silent where it must be", "wrong", "rho", "seconds")
    for way in options.ways:
        lines = _spend(way, model, threads, options)
        told = [line for line in lines if line["wants"] not in ("refused", "talk")]
        kept = [line for line in lines if line["wants"] in ("refused", "talk")]
        figures = (
            len(lines),
            f"{sum(line['met'] for line in told)} of {len(told)}",
            f"{sum(line['met'] for line in kept)} of {len(kept)}",
            sum(line["said"] and not line["met"] for line in lines),
            f"{sum(line['rho'] for line in lines):.2f}",
            f"{sum(line['seconds'] for line in lines):.0f}",
        )
        table.add_row(way, *map(str, figures))
    Console(file=sys.stdout).print(table)
    return 0


def _spend(
    way: str, model: SharedModel, threads: Sequence[Thread], options: Any
) -> list[dict[str, Any]]:
    """The outcomes of a day."""
    folder: Path = options.out / f"{way}-{options.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    corpora = folder / "corpora"
    corpus = Corpus.open("mailbox", path=corpora) if corpora.exists() else _corpus(corpora, threads)
    ledger = Ledger(folder / "ledger")
    ledger.set_budget(corpus=corpus.name, epsilon=LIFETIME, delta=DELTA)
    given: dict[str, Any] = {"ledger": ledger, "epsilon": options.epsilons[0]}
    given |= {"delta": DELTA, "seed": options.seed}
    memory = AnswerMemory(folder / "memory", corpus.name)
    llm = PrivateContextLLM(model, knowledge=memory, **given)
    if way == "published":
        known = [memory, _published(llm, corpus, folder)]
        llm = PrivateContextLLM(model, knowledge=known, **given)
    kept = folder / "outcomes.jsonl"
    lines = (
        [json.loads(line) for line in kept.read_text("utf-8").splitlines()] if kept.exists() else []
    )
    todo = day(options.questions, options.seed)[len(lines) :]
    with kept.open("a", encoding="utf-8") as file:
        for wish in track(todo, f"asking ({way})", console=Console(stderr=True)):
            model.forget()
            begun = time.monotonic()
            try:
                result = _asked(llm, way, wish.text, corpus)
            except DPICLError as error:  # the budget is spent, or the model cannot count
                met, said, text, rho = wish.wants == "refused", False, str(error), 0.0
            else:
                met, text, rho = wish.is_met(result, threads), result.text, result.rho
                said = not isinstance(result, PrivateAnswer) or bool(result.supported)
            line = {
                "who": wish.who,
                "question": wish.text,
                "wants": wish.wants,
                "met": met,
                "said": said,
                "rho": rho,
                "seconds": time.monotonic() - begun,
                "text": text,
            }
            lines.append(line)
            print(json.dumps(line), file=file, flush=True)
    return lines


def _corpus(path: Path, threads: Sequence[Thread]) -> Corpus:
    corpus = Corpus.create("mailbox", path=path)
    corpus.add(documents_of(list(threads)))
    return corpus


if __name__ == "__main__":
    raise SystemExit(main())
