"""Questions to a made-up corpus, asked as a user would: outcomes, their tables, and the loop."""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.shared_reading import KeptWords, SharedModel
from dpicl_rag import Corpus, PrivateContextLLM
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.results import UNSUPPORTED


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a corpus, and which answers are right.

    Attributes:
        text: The question.
        kind: Of answer; what has no right answer must stay unanswered.
        turns: Questions and answers before it.
        fact: What the units state that tell it.
        right: Expressions that a right answer has; `least` of them are enough.
        wrong: Expressions that it has not.
        least: How many of `right` there must be.
    """

    text: str
    kind: str
    turns: tuple[tuple[str, str], ...] = ()
    fact: str = ""
    right: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    least: int = 0

    @property
    def answerable(self) -> bool:
        """Whether enough units tell it."""
        return bool(self.right)

    def is_right(self, text: str) -> bool:
        """Whether an answer says it, and nothing that is wrong."""

        def found(expression: str) -> bool:
            return re.search(expression, text, re.IGNORECASE) is not None

        enough = sum(map(found, self.right)) >= (self.least or len(self.right))
        return self.answerable and enough and not any(map(found, self.wrong))


@dataclass(frozen=True)
class Outcome:
    """One answer.

    Attributes:
        model: That answered.
        epsilon: Of the answer.
        seed: Of the noise.
        question: What was asked.
        kind: Of question.
        answerable: Whether enough units tell it.
        by: What released it, or ``none``.
        supported: What the answer says of itself.
        right: Whether it is.
        text: The answer.
    """

    model: str
    epsilon: float
    seed: int
    question: str
    kind: str
    answerable: bool
    by: str
    supported: bool
    right: bool
    text: str


def ask(
    llm: PrivateContextLLM, name: str, seed: int, corpus: Corpus, question: Question
) -> Outcome:
    """Put one question."""
    turns = [
        turn
        for asked, answered in question.turns
        for turn in (("user", asked), ("assistant", answered))
    ]
    answer = llm.answer(question.text, corpus, turns=turns)
    return Outcome(
        name,
        llm.config.epsilon,
        seed,
        question.text,
        question.kind,
        question.answerable,
        answer.by or "none",
        bool(answer.supported),
        answer.text != UNSUPPORTED and question.is_right(answer.text),
        answer.text,
    )


def ask_all(
    corpus: Corpus, questions: Sequence[Question], options: argparse.Namespace, name: str
) -> list[Outcome]:
    """Ask what was not asked before; nothing is remembered from one question to the next.

    What experts say is kept beside the outcomes, so that they read for one seed and epsilon alone.

    Args:
        corpus: Is asked.
        questions: To put.
        options: Of `asking_options`.
        name: Of the corpus, in the name of the file of outcomes.
    """
    warnings.simplefilter("ignore")  # a seed is not private
    model_name = name_of(options.model)
    kept = options.out / f"{model_name}-{name}.jsonl"
    lines = kept.read_text("utf-8").splitlines() if kept.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    known = {(o.question, o.epsilon, o.seed) for o in outcomes}
    model = kept_model(options)
    with kept.open("a", encoding="utf-8") as file:
        for question in track(questions, "asking", console=Console(stderr=True)):
            model.forget()
            for seed in range(options.seeds):
                for epsilon in options.epsilons:
                    if (question.text, epsilon, seed) in known:
                        continue
                    llm = PrivateContextLLM(model, epsilon=epsilon, seed=seed)
                    outcomes.append(ask(llm, model_name, seed, corpus, question))
                    print(json.dumps(asdict(outcomes[-1])), file=file, flush=True)
    return outcomes


def name_of(model: str | None) -> str:
    """How a model is called in names of files."""
    return "packaged" if model is None else Path(model).name


def kept_model(options: argparse.Namespace) -> SharedModel:
    """The model of ``--model``; what experts say to it is kept in the folder ``--out``."""
    options.out.mkdir(parents=True, exist_ok=True)
    words = KeptWords(options.out / f"{name_of(options.model)}-words.jsonl")
    return SharedModel(cached_model(options.model), words)


def cached_model(name: str | None) -> TransformersModel:
    """A model by its folder or name, or the packaged one, that keeps what it read in memory."""
    whole = default_model() if name is None else TransformersModel.load(name)
    return whole.with_cache(PrefixCache(memory=1 << 30))


def show(outcomes: Iterable[Outcome]) -> None:
    """Print figures of each run and of each kind, and every answer that is supported and wrong."""
    outcomes, console = list(outcomes), Console(file=sys.stdout)
    columns = ("right and supported", "right, not supported", "silent", "supported and wrong")
    table = Table("model", "epsilon", "seed", "answerable", *columns, "of the others: silent")
    for model, epsilon, seed in sorted({(o.model, -o.epsilon, o.seed) for o in outcomes}):
        own = [o for o in outcomes if (o.model, -o.epsilon, o.seed) == (model, epsilon, seed)]
        told = [o for o in own if o.answerable]
        figures = (
            len(told),
            sum(o.right and o.supported for o in told),
            sum(o.right and not o.supported for o in told),
            sum(not o.supported and not o.right for o in told),
            sum(o.supported and not o.right for o in own),
        )
        others = [o for o in own if not o.answerable]
        silent = f"{sum(not o.supported for o in others)} of {len(others)}"
        table.add_row(model, f"{-epsilon:g}", str(seed), *map(str, figures), silent)
    console.print(table)
    table = Table("kind", "epsilon", "asked", "right and supported", "supported and wrong")
    for kind, epsilon in sorted({(o.kind, -o.epsilon) for o in outcomes}):
        own = [o for o in outcomes if (o.kind, -o.epsilon) == (kind, epsilon)]
        good = sum(o.right and o.supported for o in own)
        bad = sum(o.supported and not o.right for o in own)
        table.add_row(kind, f"{-epsilon:g}", *map(str, (len(own), good, bad)))
    console.print(table)
    for o in outcomes:
        if o.supported and not o.right:
            console.print(f"wrong: {o.model}, {o.epsilon:g}: {o.question} → {o.text}", markup=False)


def asking_options(description: str, out: str) -> argparse.ArgumentParser:
    """A parser of the options that every such benchmark has.

    Args:
        description: Of the benchmark.
        out: Folder of outcomes, if none is given.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--model", help="folder or name; the packaged one if left out")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[4.0, 2.0])
    parser.add_argument("--seeds", type=int, default=1, help="of the noise")
    parser.add_argument("--questions", type=int, help="the first ones alone")
    parser.add_argument("--out", type=Path, default=Path(out), help="folder")
    return parser
