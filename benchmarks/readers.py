"""Private answers from a reader's notes: how many are right, for how many calls?

``python -m benchmarks.readers medical --reader chat+http://127.0.0.1:8471/v1 --out runs/medical``
compares, at epsilon 8, 4 and 2, answers from what the default model reads by itself, from notes of
a chat model with and without the default model writing, from notes of a *perfect* reader, and from
the same notes by two published ways that need text alone, ESA and KSA. All are given the same
units, and all pay the search out of the same epsilon. ``nq`` asks questions of the web
(`benchmarks.reader_tasks`). Without ``--reader`` only what needs none is asked.

A prompt is asked once and its reply kept; calls, tokens and seconds are counted as if it were asked
each time. An interrupted run goes on with what ``--out`` holds. ``benchmarks.chat_server`` serves
the default model. The data are found through DPICL_RAG_DATA.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import platformdirs
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import quality
from benchmarks.fixed_search import FixedSearch
from benchmarks.kept_replies import KeptReplies, Used
from benchmarks.reader_tasks import TASKS, Case, Task
from benchmarks.rival_budget import beside_any, beside_gaussian
from dpicl_rag import Corpus, PrivateContextLLM
from dpicl_rag.answering.answer_plan import planned_answer
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.readers.as_reader import as_reader
from dpicl_rag.language_models.readers.notes import notes
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import as_retriever
from dpicl_research.embedding_aggregation import EmbeddingAggregation
from dpicl_research.keyword_aggregation import KeywordAggregation, words_of

EPSILONS = (8.0, 4.0, 2.0)
DELTA = 1e-5
RIVAL_DELTA = DELTA / 2
"""KSA's own part of delta: the rest is for the search."""

PERFECT = "perfect reader alone"
PERFECT_KSA = "KSA, perfect reader and writer"
PERFECT_ESA = "ESA, perfect reader"
MODEL = "default model reads and writes"
ALONE = "chat model reads, alone"
WRITTEN = "chat model reads, default model writes"
ESA, KSA = "ESA, chat model reads", "KSA, chat model reads and writes"
KSA_READ = "KSA, chat model reads, perfect writer"
RIVALS = (ESA, PERFECT_ESA, KSA, KSA_READ, PERFECT_KSA)
ROWS = (MODEL, ALONE, WRITTEN, PERFECT, *RIVALS)
_CHEAP = (PERFECT, PERFECT_KSA)  # need no model, and come first
_NO_READER = (*_CHEAP, MODEL)


@dataclass(frozen=True)
class Outcome:
    """One answer.

    Attributes:
        row: Of the table.
        epsilon: Of the answer.
        at: Number of the question.
        text: The answer.
        right: Whether it gives what is right.
        calls: Of the chat model.
        tokens_in: Tokens of its prompts, by the default model's tokenizer.
        tokens_out: The same of its replies.
        seconds: Notes that were kept with the time that they took.
        rho: Paid at most by any unit; None of a rival, which pays all of its budget.
    """

    row: str
    epsilon: float
    at: int
    text: str
    right: bool
    calls: int
    tokens_in: int
    tokens_out: int
    seconds: float
    rho: float | None


class Contenders:
    """What answers the questions of a task.

    Args:
        task: Questions and documents.
        corpus: Of the documents.
        options: Of the command line.
    """

    def __init__(self, task: Task, corpus: Corpus, options: argparse.Namespace) -> None:
        self._task = task
        self._corpus = corpus
        self._seed: int = options.seed
        self._writer: TransformersModel = default_model(options.dtype)
        tokenizer = self._writer.tokenizer

        def tokens(text: str) -> int:
            return len(tokenizer.encode(text))

        self._perfect: dict[str, KeptReplies] = {
            case.question: KeptReplies(_each(case.perfect), "perfect", tokens)
            for case in task.cases
        }
        self._chat: KeptReplies | None = None
        if options.reader is not None:
            chat = as_reader(options.reader)
            file = None if options.out is None else options.out / "notes.jsonl"
            self._chat = KeptReplies(chat.replies, chat.fingerprint, tokens, file)
        self._embedder = SentenceTransformerEmbedder()
        self._esa = EmbeddingAggregation(self._embedder.embed, candidates=options.candidates)
        self._ksa = KeywordAggregation()

    def answer(self, row: str, epsilon: float, at: int) -> Outcome:
        """What one row of the table says to one question."""
        case = self._task.cases[at]
        own = self._perfect[case.question] if "perfect reader" in row else self._chat
        if own is None and row != MODEL:
            raise ValueError(row)
        if row in (ESA, PERFECT_ESA):
            self._warm(case.question)
        for reader in filter(None, (own, self._chat)):
            reader.used = Used()
        begun = time.perf_counter()
        if own is not None and row in RIVALS:
            text, rho = self._rival(row, own, case, epsilon, at), None
        else:
            text, rho = self._ours(row, own, case, epsilon, at)
        seconds = time.perf_counter() - begun
        used = Used() if own is None or row == MODEL else own.used
        if row == PERFECT_ESA and self._chat is not None:
            used = used.plus(self._chat.used)
        return Outcome(
            row,
            epsilon,
            at,
            text,
            case.right(text),
            used.calls,
            used.tokens_in,
            used.tokens_out,
            seconds + used.saved,
            rho,
        )

    def _search(self, at: int) -> FixedSearch:
        return FixedSearch.of(as_retriever(self._corpus), self._seed * 1000 + at)

    def _ours(
        self, row: str, reader: KeptReplies | None, case: Case, epsilon: float, at: int
    ) -> tuple[str, float]:
        if row in (ALONE, PERFECT):
            llm = PrivateContextLLM(reader=reader, epsilon=epsilon, delta=DELTA, agreement="only")
        else:
            llm = PrivateContextLLM(
                self._writer,
                reader=reader if row == WRITTEN else None,
                template=self._task.template,
                max_tokens=self._task.max_tokens,
                stop=self._task.stop,
                epsilon=epsilon,
                delta=DELTA,
            )
        answer = llm.answer(case.question, self._search(at))
        silent = answer.text in ("", UNSUPPORTED)
        return "" if silent else answer.text, answer.rho

    def _rival(self, row: str, reader: KeptReplies, case: Case, epsilon: float, at: int) -> str:
        """ESA or KSA over the units of our own search, with what that leaves of the budget."""
        config = PrivacyConfig.create(epsilon=epsilon, delta=DELTA, agreement="only")
        search, _ = planned_answer(config, self._search(at), booked=False)
        rho = search.rho(config.adjacency)
        found = search.search(case.question).choose()
        units = [tuple(one.text for one in own) for own in found.units.values()]
        read = notes(reader, case.question)(units, None)
        replies = [note[0] if note else "" for note in read]
        if row not in (ESA, PERFECT_ESA):
            ask = reader.ask if row == KSA else _writes(case)
            return self._ksa.answer(
                case.question,
                replies,
                ask,
                epsilon=beside_any(epsilon, DELTA, RIVAL_DELTA, rho),
                delta=RIVAL_DELTA,
                randomness=Randomness(),
            )
        assert self._chat is not None
        left = beside_gaussian(epsilon, DELTA, rho)
        return self._esa.answer(
            case.question,
            replies,
            self._chat.ask,
            epsilon=left,
            delta=DELTA,
            randomness=Randomness(),
        )

    def _warm(self, question: str) -> None:
        """Ask for all candidates of ESA at once: it asks for one after the other."""
        assert self._chat is not None
        prompts: list[str] = []

        def listen(prompt: str) -> str:
            prompts.append(prompt)
            return ""

        coins = Randomness()
        self._esa.answer(question, [], listen, epsilon=1.0, delta=DELTA, randomness=coins)
        self._chat.replies(prompts)


def _each(call: Callable[[str], str]) -> Callable[[Sequence[str]], list[str]]:
    return lambda prompts: [call(prompt) for prompt in prompts]


def _writes(case: Case) -> Callable[[str], str]:
    """A perfect writer of KSA: right where the prompt has all words of an answer."""

    def write(prompt: str) -> str:
        words = words_of(prompt)
        told = (answer for answer in case.answers if words_of(answer) <= words)
        return next(told, "these words say nothing")

    return write


def outcomes(
    contenders: Contenders, questions: int, rows: Sequence[str], kept: Sequence[Outcome]
) -> Iterator[list[Outcome]]:
    """The answers to one question after the other, those that are kept left out; see `parts_of`.

    Args:
        contenders: Answer.
        questions: How many.
        rows: Of the table.
        kept: Answers of an earlier run.
    """
    done = {(one.row, one.epsilon, one.at) for one in kept}
    for part in parts_of(rows):
        for at in range(questions):
            yield [
                contenders.answer(row, epsilon, at)
                for row in part
                for epsilon in EPSILONS
                if (row, epsilon, at) not in done
            ]


def parts_of(rows: Sequence[str]) -> list[list[str]]:
    """Rows that are asked together: first what needs no model, last what reads all documents."""
    sought = [[row for row in rows if _turn(row) == turn] for turn in range(3)]
    return [part for part in sought if part]


def _turn(row: str) -> int:
    return 0 if row in _CHEAP else 2 if row == MODEL else 1


def table_of(told: Sequence[Outcome], task: Task) -> Table:
    """The figures of each row and epsilon."""
    table = Table(title=task.name, title_justify="left")
    headings = ("right", "silent", "names leaked", "calls", "tokens in : out", "seconds", "rho")
    for heading in ("", "epsilon", *headings):
        table.add_column(heading)
    for row in ROWS:
        for epsilon in EPSILONS:
            own = [one for one in told if (one.row, one.epsilon) == (row, epsilon)]
            if own:
                rhos = [one.rho for one in own if one.rho is not None]
                table.add_row(
                    row,
                    f"{epsilon:g}",
                    f"{sum(one.right for one in own)} of {len(own)}",
                    str(sum(not one.text for one in own)),
                    str(task.leaked([one.text for one in own])),
                    f"{mean(one.calls for one in own):.0f}",
                    f"{mean(one.tokens_in for one in own):.0f} : "
                    f"{mean(one.tokens_out for one in own):.0f}",
                    f"{mean(one.seconds for one in own):.1f}",
                    f"{mean(rhos):.3f}" if rhos else "all",
                )
    return table


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--reader", help="an address of a chat model")
    parser.add_argument("--rows", nargs="+", choices=ROWS, help="all that can be had otherwise")
    parser.add_argument("--candidates", type=int, default=100, help="public answers of ESA")
    parser.add_argument("--seed", type=int, default=0, help="of questions and searches")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="of the default model")
    parser.add_argument("--out", type=Path, help="folder of answers and notes, to go on from")
    parser.add_argument("--json", action="store_true", help="print the answers and no table")
    options = parser.parse_args()
    if not quality.DATA.is_dir():
        print("error: no benchmark data; set DPICL_RAG_DATA to its folder", file=sys.stderr)
        return 1
    able = _NO_READER if options.reader is None else ROWS
    rows = options.rows or able
    if not set(rows) <= set(able):
        print("error: some of these rows need a --reader", file=sys.stderr)
        return 1
    console = Console(stderr=True)
    task = TASKS[options.task](options.questions, options.seed)
    store = platformdirs.user_cache_path("dpicl-rag") / "benchmarks"
    with console.status("embedding the documents (kept for the next run)"):
        corpus = Corpus.create(task.name, path=store)
        corpus.add(task.documents)
    file = None
    told: list[Outcome] = []
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        file = options.out / "answers.jsonl"
        if file.exists():
            lines = file.read_text(encoding="utf-8").splitlines()
            told = [Outcome(**json.loads(line)) for line in lines]
    total = len(parts_of(rows)) * len(task.cases)
    asked = outcomes(Contenders(task, corpus, options), len(task.cases), rows, list(told))
    for new in track(asked, "asking", total=total, console=console):
        told += new
        if file is not None:
            with file.open("a", encoding="utf-8") as stream:
                stream.writelines(json.dumps(asdict(one)) + "\n" for one in new)
    if options.json:
        print(json.dumps([asdict(one) for one in told]))
    else:
        Console().print(table_of(told, task))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
