"""A mailbox in four languages, asked as a user would: which answers are right, which are supported?

``python -m benchmarks.mailbox --model FOLDER --epsilons 4 2 --seeds 5`` asks the 24 questions of
``mailbox.toml`` with default settings and nothing remembered. 16 of them are told by 16 to 30
threads of 308; 8 by nobody or by one. What was asked before is not asked again: the answers stand
in the folder ``--out``.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.mailbox.made_mailbox import Question, make_mailbox, read_questions
from benchmarks.shared_reading import SharedModel
from dpicl_rag import Corpus, PrivateContextLLM, load
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers import TransformersModel


@dataclass(frozen=True)
class Outcome:
    """One answer.

    Attributes:
        model: That answered.
        epsilon: Of the answer.
        seed: Of the noise.
        question: What was asked.
        kind: Of question.
        answerable: Whether enough threads tell it.
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
        question.is_right(answer.text),
        answer.text,
    )


def show(outcomes: Iterable[Outcome], console: Console) -> None:
    """Print a table of figures, and every answer that is supported and wrong."""
    outcomes = list(outcomes)
    columns = ("right and supported", "right, not supported", "silent", "supported and wrong")
    table = Table("model", "epsilon", "seed", "answerable", *columns, "of the other 8: silent")
    for model, epsilon, seed in sorted({(o.model, -o.epsilon, o.seed) for o in outcomes}):
        own = [o for o in outcomes if (o.model, -o.epsilon, o.seed) == (model, epsilon, seed)]
        told = [o for o in own if o.answerable]
        figures = (
            len(told),
            sum(o.right and o.supported for o in told),
            sum(o.right and not o.supported for o in told),
            sum(not o.supported and not o.right for o in told),
            sum(o.supported and not o.right for o in own),
            sum(not o.supported for o in own if not o.answerable),
        )
        table.add_row(model, f"{-epsilon:g}", str(seed), *map(str, figures))
    console.print(table)
    for o in outcomes:
        if o.supported and not o.right:
            console.print(f"wrong: {o.model}, {o.epsilon:g}: {o.question} → {o.text}", markup=False)


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", help="folder or name; the packaged one if left out")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[4.0, 2.0])
    parser.add_argument("--seeds", type=int, default=1, help="of the noise")
    parser.add_argument("--mailbox", type=int, default=0, help="seed of the mailbox")
    parser.add_argument("--out", type=Path, default=Path("runs/mailbox"), help="folder")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # a seed is not private
    name = Path(options.model).name if options.model else "packaged"
    kept = options.out / f"{name}-{options.mailbox}.jsonl"
    lines = kept.read_text("utf-8").splitlines() if kept.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    known = {(o.question, o.epsilon, o.seed) for o in outcomes}

    box = options.out / f"{options.mailbox}.mbox"
    make_mailbox(options.mailbox).write(box)
    corpus = Corpus.create(f"mailbox-{options.mailbox}", path=options.out / "corpora")
    corpus.add(load(box).documents)
    whole = default_model() if options.model is None else TransformersModel.load(options.model)
    model = SharedModel(whole.with_cache(PrefixCache(memory=8 << 30)))
    with kept.open("a", encoding="utf-8") as file:
        for question in track(read_questions(), "asking", console=Console(stderr=True)):
            model.forget()
            for seed in range(options.seeds):
                for epsilon in options.epsilons:
                    if (question.text, epsilon, seed) in known:
                        continue
                    llm = PrivateContextLLM(model, epsilon=epsilon, seed=seed)
                    outcomes.append(ask(llm, name, seed, corpus, question))
                    print(json.dumps(asdict(outcomes[-1])), file=file, flush=True)
    show(outcomes, Console(file=sys.stdout))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
