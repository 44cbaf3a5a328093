"""All methods before the same documents, at equal true epsilon and delta.

``python -m benchmarks.leaderboard --tasks medical mailbox --epsilons 8 4 2 1`` asks every method
the same questions. Neighbours add or remove one privacy unit. Documents are read once for all. What
was answered stands in the folder, so an interrupted run goes on where it was; with ``--show`` the
table is made of what is there. The medical data are found through DPICL_RAG_DATA.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from benchmarks.asked_corpus import Question, asking_options, name_of
from benchmarks.leaderboard.method import (
    Asked,
    Method,
    Setting,
    budget_beside_search,
    find,
    read_units,
)
from benchmarks.leaderboard.methods import all_methods
from benchmarks.leaderboard.standings import (
    Outcome,
    kept,
    line_of,
    losses,
    markdown,
    plot,
    standings,
    table,
)
from benchmarks.leaderboard.tasks import TASKS, Task
from benchmarks.shared_reading import SharedModel
from dpicl_rag import Corpus
from dpicl_rag.accounting import DELTA
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.mechanisms.randomness import SeededRandomness
from dpicl_rag.mechanisms.step import rows_of


def ask(
    method: Method, setting: Setting, corpus: Corpus, question: Question, epsilon: float, coins: int
) -> tuple[str, bool, float] | None:
    """Text, support and seconds of one answer; None where it cannot be had."""
    begun = time.perf_counter()
    asked = Asked(question.text, corpus, epsilon, DELTA, SeededRandomness(coins))
    told = method.answer(setting, asked)
    return None if told is None else (told.text, told.supported, time.perf_counter() - begun)


def read_first(
    setting: Setting, corpus: Corpus, question: Question, epsilon: float, coins: int
) -> None:
    """Read what all find, so that no method is timed for what it reads for the others too."""
    asked = Asked(question.text, corpus, epsilon, DELTA, SeededRandomness(coins))
    found = find(setting, asked, budget_beside_search(epsilon, DELTA))
    prompt, rows, _ = read_units(setting, question.text, found.units.values())
    rows_of(rows.extend(prompt.suffix))  # which looks at all of them


def run(
    name: str, task: Task, methods: Sequence[Method], options: argparse.Namespace, file: Path
) -> None:
    """Ask all methods a task's questions; each answer is kept at once."""
    known = {one.asked for one in kept(file)}
    corpus = task.corpus(options.out / "corpora" / name)
    loaded = default_model() if options.model is None else TransformersModel.load(options.model)
    model = SharedModel(loaded.with_cache(PrefixCache(memory=options.memory << 20)))
    released = None if options.synthetic is None else options.synthetic / name
    setting = Setting(
        *(model, task.template, task.max_tokens, task.stop), bar=task.bar, released=released
    )
    questions = task.questions()[: options.questions]
    with file.open("a", encoding="utf-8") as out:
        for question in track(questions, f"asking ({name})", console=Console(stderr=True)):
            model.forget()
            for seed in range(options.seeds):
                for epsilon in options.epsilons:
                    # The same for all methods, so that all find about the same units.
                    coins = zlib.crc32(f"{seed} {epsilon:g} {question.text}".encode())
                    left = [
                        method
                        for method in methods
                        if (name, method.name, epsilon, seed, question.text) not in known
                    ]
                    if left:
                        read_first(setting, corpus, question, epsilon, coins)
                    for method in left:
                        found = ask(method, setting, corpus, question, epsilon, coins)
                        if found is None:
                            continue
                        text, supported, seconds = found
                        outcome = Outcome(
                            *(name, method.name, epsilon, seed, question.text),
                            charged=method.charge(setting, epsilon, DELTA),
                            needed=method.needed(setting, epsilon),
                            right=question.is_right(text),
                            supported=supported,
                            seconds=seconds,
                            text=text,
                        )
                        print(line_of(outcome), file=out, flush=True)


def main() -> int:
    """Read the command line and run."""
    methods = all_methods()
    parser = asking_options(__doc__ or "", "runs/leaderboard")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument(
        "--methods", nargs="+", choices=list(methods), default=list(methods), metavar="NAME"
    )
    parser.add_argument("--synthetic", type=Path, help="folder of TASK/EPSILON of synthesis runs")
    parser.add_argument("--memory", type=int, default=1024, help="MiB of documents that are kept")
    parser.add_argument("--show", action="store_true", help="ask nothing")
    parser.set_defaults(epsilons=[8.0, 4.0, 2.0, 1.0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a seed is not private
    options.out.mkdir(parents=True, exist_ok=True)
    name = name_of(options.model)
    file = options.out / f"{name}.jsonl"
    for task in () if options.show else options.tasks:
        run(task, TASKS[task], [methods[one] for one in options.methods], options, file)
    asked = (*options.tasks,), (*options.methods,)
    outcomes = [one for one in kept(file) if one.task in asked[0] and one.method in asked[1]]
    if not outcomes:
        print("nothing was asked yet", file=sys.stderr)
        return 1
    found, console = standings(outcomes), Console(width=max(140, Console().width))
    for line in losses(found):
        console.print(f"we lose: {line}", markup=False)
    console.print(table(found))
    (options.out / f"{name}.md").write_text(markdown(found), encoding="utf-8")
    plot(found, options.out / f"{name}.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
