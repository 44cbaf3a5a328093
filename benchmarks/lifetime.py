"""How many right answers do documents pay for in their lifetime?

``python -m benchmarks.lifetime --out runs/lifetime`` puts a stream of questions, in varying words,
to the mailbox of the email demo. No thread may lose more than epsilon 8 in all. Some facts are
asked for more often than others (Zipf). Each contender has a ledger and a memory of its own; all
read the same model. A fact is over for a contender after three wrong answers in a row.

What was answered stands in the folder, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.made_up_facts import MADE_UP
from benchmarks.shared_reading import SharedModel
from demos.email_assistant import MAX_TOKENS, TEMPLATE
from demos.inbox.facts import FACT_WORDINGS, FactWording
from demos.inbox.generator import generate
from dpicl_rag import (
    Corpus,
    Ledger,
    PrivateContextLLM,
    PrivateThresholdRetriever,
    PromptTemplate,
    ThresholdRetriever,
    load,
)
from dpicl_rag.accounting import Budget, strength_for
from dpicl_rag.knowledge import AnswerMemory
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.retrieval import Search

LIFETIME, DELTA = 8.0, 1e-5
BEFORE = 0.5  # cosine of the demo on 2026-11-21
OVER = 3  # wrong answers in a row
STOP = ("\n", ". ")
ABOUT = 40  # threads about a fact, which InvisibleInk is told

FRAMES = (
    "{}",
    "A customer asks: {}",
    "Please tell me: {}",
    "Hello, {}",
    "{} Thank you.",
    "Quick question. {}",
    "For a colleague: {}",
    "I need to know this today. {}",
    "{} A short answer is enough.",
    "Just to be sure: {}",
    "This came by phone: {}",
    "{} It is for a letter.",
    "Once more, please: {}",
    "Good morning! {}",
    "{} The customer is waiting.",
    "From the front desk: {}",
)


@dataclass(frozen=True)
class Contender:
    """A way to answer.

    Attributes:
        name: In tables.
        settings: Of ``PrivacyConfig``, for an epsilon of one answer.
        documents: What is searched: a retriever, or the corpus itself.
        epsilons: Of one answer; it runs with each.
        remembers: Whether it has a memory.
        template: How units and questions become prompts.
    """

    name: str
    settings: Callable[[float], dict[str, Any]]
    documents: Callable[[Corpus], Any]
    epsilons: tuple[float, ...] = (8.0,)
    remembers: bool = False
    template: PromptTemplate = TEMPLATE


@dataclass(frozen=True)
class Asked:
    """A question of the stream."""

    number: int
    fact: FactWording
    text: str


@dataclass
class Told:
    """What one contender has answered so far: whether each answer was right, by fact."""

    right: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))

    def over(self, topic: str) -> bool:
        """Whether the documents about a fact have nothing more to give."""
        last = self.right[topic][-OVER:]
        return len(last) == OVER and not any(last)


def _before(epsilon: float) -> dict[str, Any]:
    """The defaults of 2026-11-21."""
    return {
        "strength": strength_for(Budget(epsilon, DELTA), 12, 1.0),
        "public_power": 1.5,
        "expert_power": 2.0,
        "agreement": "off",
        "unsupported": "ignore",
    }


def _by_need(epsilon: float) -> dict[str, Any]:
    return {"agreement": "off", "unsupported": "ignore"}


def _tokens_only(epsilon: float) -> dict[str, Any]:
    """The defaults of 2026-11-22, but for counts of units."""
    return {"agreement": "off"}


def _then_tokens(epsilon: float) -> dict[str, Any]:
    """The defaults until 2026-11-28: where experts do not agree, tokens are drawn."""
    return {"agreement": "auto"}


def plain_product(budget: Budget, tokens: int = MAX_TOKENS) -> dict[str, Any]:
    """Private PoEtry: clipped log-probabilities, every token at its full price."""
    strength = strength_for(budget, tokens, 4.0)
    return {
        "utility": "log_prob",
        "clip": 4.0,
        "strength": strength,
        "agreement": "off",
        "unsupported": "ignore",
    }


def noisy_max(budget: Budget, tokens: int = MAX_TOKENS) -> dict[str, Any]:
    """The likeliest token of each document, and the noisy maximum of the votes (Gumbel noise)."""
    strength = strength_for(budget, tokens, 1.0)
    return {
        "utility": "vote",
        "public_power": 0.0,
        "strength": strength,
        "agreement": "off",
        "unsupported": "ignore",
    }


def invisible_ink(budget: Budget, tokens: int = MAX_TOKENS) -> dict[str, Any]:
    """InvisibleInk at temperature 1: the mean of clipped differences; the budget sets the clip."""
    share = budget.rho / tokens
    return {
        "utility": "log_ratio",
        "public_power": 1.0,
        "strength": 1 / ABOUT,
        "clip": ABOUT * math.sqrt(2 * share) * (1 - 1e-9),
        "agreement": "off",
        "unsupported": "ignore",
    }


def _found_before(corpus: Corpus) -> Search:
    return ThresholdRetriever(corpus, BEFORE)


def _counted(corpus: Corpus) -> Search:
    return PrivateThresholdRetriever(corpus)


def _itself(corpus: Corpus) -> Corpus:
    return corpus


CONTENDERS = (
    Contender("settings of 2026-11-21", _before, _found_before, (8.0, 4.0)),
    Contender("strength by need", _by_need, _counted, (2.0,)),
    Contender("+ 24 units", lambda _: {**_by_need(_), "units": 24}, _itself, (2.0,)),
    Contender("+ memory", _tokens_only, _itself, (2.0,), remembers=True),
    Contender("+ agreement", _then_tokens, _itself, (2.0,), remembers=True),
    Contender("no tokens", lambda _: {}, _itself, (2.0,), remembers=True),
    Contender(
        "the defaults", lambda _: {}, _itself, (2.0,), remembers=True, template=PromptTemplate()
    ),
    Contender("InvisibleInk", lambda e: invisible_ink(Budget(e, DELTA)), _found_before),
    Contender("plain product", lambda e: plain_product(Budget(e, DELTA)), _found_before),
    Contender("noisy max of votes", lambda e: noisy_max(Budget(e, DELTA)), _found_before),
)


class Race:
    """All contenders before the same mailbox.

    Args:
        corpus: The mailbox.
        model: Shared by all.
        contenders: Who takes part.
        folder: Where ledgers, memories and answers are kept.
        seed: Of the draws.
    """

    def __init__(
        self,
        corpus: Corpus,
        model: SharedModel,
        contenders: Sequence[Contender],
        folder: Path,
        seed: int,
    ) -> None:
        self._corpus = corpus
        self._model = model
        self._folder = folder
        self._runners = {
            (contender.name, epsilon): (contender, self._make(contender, epsilon, seed))
            for contender in contenders
            for epsilon in contender.epsilons
        }
        self.told = {who: Told() for who in self._runners}

    def run(self, asked: Sequence[Asked], console: Console) -> None:
        """Put every question to everybody; answers that are there already are not asked again."""
        file = self._folder / "answers.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        done = set()
        for line in map(json.loads, lines):
            who = (line["contender"], line["epsilon"])
            if who in self.told:
                self.told[who].right[line["fact"]].append(line["right"])
                done.add((who, line["number"]))
        with file.open("a", encoding="utf-8") as out:
            for one in track(asked, "asking", console=console):
                topic = one.fact.fact.topic
                asking = {
                    who: runner
                    for who, runner in self._runners.items()
                    if (who, one.number) not in done and not self.told[who].over(topic)
                }
                self._model.forget()
                for who, (contender, llm) in asking.items():
                    told = self.told[who]
                    answer = llm.answer(one.text, contender.documents(self._corpus))
                    right = one.fact.fact.is_stated_in(answer.text)
                    told.right[topic].append(right)
                    line = {
                        "contender": who[0],
                        "epsilon": who[1],
                        "number": one.number,
                        "fact": topic,
                        "right": right,
                        "by": answer.by,
                        "rho": answer.rho,
                        "text": answer.text,
                    }
                    out.write(json.dumps(line) + "\n")
                    out.flush()

    def _make(self, contender: Contender, epsilon: float, seed: int) -> PrivateContextLLM:
        name = re.sub(r"\W+", "-", f"{contender.name} {epsilon:g}")
        ledger = Ledger(self._folder / f"{name}.ledger")
        ledger.set_budget(corpus=self._corpus.name, epsilon=LIFETIME, delta=DELTA)
        memory = None
        if contender.remembers:
            memory = AnswerMemory(self._folder / f"{name}.memory", self._corpus.name)
        return PrivateContextLLM(
            self._model,
            template=contender.template,
            ledger=ledger,
            knowledge=memory,
            epsilon=epsilon,
            delta=DELTA,
            max_tokens=MAX_TOKENS,
            stop=STOP,
            seed=seed,
            **contender.settings(epsilon),
        )


def make_stream(facts: Sequence[FactWording], count: int, seed: int) -> list[Asked]:
    """Questions about facts by Zipf's law, each wording of a fact before any comes again."""
    draw = random.Random(seed)
    order = draw.sample(facts, len(facts))
    weights = [1 / rank for rank in range(1, len(order) + 1)]
    wordings: dict[str, list[str]] = {}
    asked = []
    for number, fact in enumerate(draw.choices(order, weights, k=count)):
        left = wordings.setdefault(fact.fact.topic, [])
        if not left:
            stems = (fact.fact.question, *fact.questions)
            left += [frame.format(stem) for frame in FRAMES for stem in stems]
            # Of its own, so that a longer stream begins as a shorter one.
            random.Random(f"{seed} {fact.fact.topic}").shuffle(left)
        asked.append(Asked(number, fact, left.pop()))
    return asked


def ingest(facts: Sequence[FactWording], folder: Path) -> Corpus:
    """The demo's mailbox about some facts, as a corpus."""
    path = folder / "support.mbox"
    generate(wordings=facts).write(path)
    corpus = Corpus.create("support-mail", path=folder / "chroma")
    corpus.add(load(path).documents)
    return corpus


def show(told: dict[tuple[str, float], Told], questions: int, console: Console) -> None:
    """Print right answers by contender and epsilon of an answer."""
    table = Table(title=f"right answers of {questions}, lifetime epsilon {LIFETIME:g}")
    for heading in ("", "epsilon of an answer", "right", "asked before the end"):
        table.add_column(heading)
    for (name, epsilon), one in told.items():
        right = sum(map(sum, one.right.values()))
        table.add_row(name, f"{epsilon:g}", str(right), str(sum(map(len, one.right.values()))))
    console.print(table)


def plot(folder: Path, file: Path) -> None:
    """Right answers against questions, up to the last one asked, each at its best epsilon."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    counts = Counter((line["contender"], line["epsilon"]) for line in lines if line["right"])
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for contender in CONTENDERS:
        mine = {who: right for who, right in counts.items() if who[0] == contender.name}
        if not mine:
            continue
        best = max(mine, key=lambda who: mine[who])
        own = [line for line in lines if (line["contender"], line["epsilon"]) == best]
        right = [0] * (1 + max(line["number"] for line in own))  # it was asked nothing later
        for line in own:
            right[line["number"]] = int(line["right"])
        label = f"{contender.name}, epsilon {best[1]:g}"
        axes.plot(range(1, len(right) + 1), list(accumulate(right)), label=label)
    axes.set_xlabel("questions asked")
    axes.set_ylabel("right answers")
    axes.legend(fontsize="small")
    figure.savefig(file, dpi=120)


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--facts", type=int, default=5, help="asked for; 5 are the demo's, 40 all")
    names = [contender.name for contender in CONTENDERS]
    parser.add_argument("--contenders", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--seed", type=int, default=0, help="of questions and draws")
    parser.add_argument("--out", type=Path, default=Path("runs/lifetime"), help="folder")
    options = parser.parse_args()
    stated = (*FACT_WORDINGS, *MADE_UP)[: max(options.facts, len(FACT_WORDINGS))]
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    warnings.simplefilter("ignore")  # a seed is not private; every contender would say so
    with Console(stderr=True).status("reading and embedding the mailbox"):
        corpus = ingest(stated, options.out)
    cached = default_model(options.dtype).with_cache(PrefixCache(memory=8 << 30))
    asked = make_stream(stated[: options.facts], options.questions, options.seed)
    contenders = [one for one in CONTENDERS if one.name in options.contenders]
    race = Race(corpus, SharedModel(cached), contenders, options.out, options.seed)
    race.run(asked, Console(file=sys.stderr))
    show(race.told, len(asked), console)
    plot(options.out, options.out / "lifetime.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
