"""An email assistant over a made-up support mailbox, asked with and without privacy.

Run ``make demo-terminal`` or ``python -m demos.email_assistant``. Whatever it prints is what the
models said; nothing is picked or corrected.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from demos.inbox.generator import COMPANY, Mailbox, generate
from demos.inbox.spending import Spending
from dpicl_rag import (
    AnswerMemory,
    Corpus,
    Document,
    Example,
    Ledger,
    PrivateAnswer,
    PrivateContextLLM,
    PromptTemplate,
    TopKRetriever,
    load,
)
from dpicl_rag.answering.prompt_rows import greedy_answer
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.stores import ChromaCollection

EPSILON, DELTA = 2.0, 1e-5
MAX_TOKENS = 20
CORPUS = "support-mail"
BATCH = 64  # mails embedded at a time
RAG_THREADS = 4  # what ordinary RAG puts into its one prompt

# A support desk is asked how things are done; an example of that kind, about something else, is
# worth much to a small model (benchmarks/README.md, "What an example is worth").
HOW_TO = Example(
    "From: Ned\nSubject: Heater\nHi Ursula,\n\nTo stop the heater from humming, turn the left "
    "valve twice. It is an old one.\n\nNed, House Service",
    "How do I stop the heater from humming?",
    "To stop the heater from humming, turn the left valve twice.",
)
TEMPLATE = PromptTemplate(
    system="You answer the question from the email. Answer with one short sentence.",
    user="Email:\n{document}\n\nQuestion: {question}",
    examples=(*PromptTemplate().examples, HOW_TO),
)


@dataclass(frozen=True)
class Answers:
    """One question asked three ways.

    Attributes:
        question: What was asked.
        alone: The model's answer without documents.
        ordinary: That of ordinary RAG.
        private: The private answer.
        paid: What it cost the units that were read, on average, as rho. Private, but for a mailbox
            that is made up.
    """

    question: str
    alone: str
    ordinary: str
    private: PrivateAnswer
    paid: float

    @property
    def texts(self) -> tuple[str, str, str]:
        """The three answers."""
        return self.alone, self.ordinary, self.private.text


class Assistant:
    """The mailbox in Chroma and one model, asked three ways."""

    def __init__(
        self, corpus: ChromaCollection, llm: PrivateContextLLM, spending: Spending
    ) -> None:
        self.llm = llm
        self.corpus = corpus
        self._spending = spending
        self._top = TopKRetriever(corpus, RAG_THREADS)

    def ask(self, question: str, progress: Progress) -> Answers:
        """Ask without documents, with ordinary RAG, and privately."""
        task = progress.add_task(question, total=1.0)
        alone = self._greedy(question, [])
        ordinary = self._greedy(question, [d.text for d in self._top.retrieve(question)])
        progress.update(task, completed=1.0)
        private, paid = self.ask_again(question, progress)
        return Answers(question, alone, ordinary, private, paid)

    def ask_again(self, question: str, progress: Progress) -> tuple[PrivateAnswer, float]:
        """Ask privately alone; the answer, and what it cost."""
        task = progress.add_task(question, total=1.0)
        private = self.llm.answer(
            question,
            self.corpus,
            on_progress=lambda part, _: progress.update(task, completed=0.9 * part),
        )
        progress.update(task, completed=1.0)
        return private, self._spending.since_last()

    def _greedy(self, question: str, passages: Sequence[str]) -> str:
        return greedy_answer(
            self.llm.model, TEMPLATE, question, passages, max_tokens=MAX_TOKENS, stop=("\n",)
        )


def open_assistant(box: Mailbox, folder: Path, progress: Progress) -> Assistant:
    """A mailbox in Chroma, and a model with a ledger and a memory beside it."""
    task = progress.add_task("loading the default model (30 s the first time)", total=None)
    ledger = Ledger(folder / "ledger.sqlite")
    # More than enough: what is spent is to be seen, not stopped.
    ledger.set_budget(corpus=CORPUS, rho=2000.0, unit_rho=1000.0)
    llm = PrivateContextLLM(
        template=TEMPLATE,
        ledger=ledger,
        knowledge=AnswerMemory(folder / "memory.sqlite", CORPUS),
        epsilon=EPSILON,
        delta=DELTA,
        max_tokens=MAX_TOKENS,
        stop=("\n",),
        unsupported="refuse",
    )
    progress.update(task, total=1, completed=1)
    documents = ingest(box, folder, progress)
    corpus = fill(documents, folder, progress)
    return Assistant(corpus, llm, Spending(ledger, CORPUS, {d.unit for d in documents}))


def fill(documents: Sequence[Document], folder: Path, progress: Progress) -> ChromaCollection:
    """Keep the mails in a Chroma collection, as any program would, and open that privately."""
    import chromadb  # the served mailbox does without

    embedder = SentenceTransformerEmbedder()
    client = chromadb.PersistentClient(str(folder / "chroma"))
    collection = client.create_collection(CORPUS, embedding_function=None)
    task = progress.add_task("embedding", total=len(documents))
    for first in range(0, len(documents), BATCH):
        some = documents[first : first + BATCH]
        collection.add(
            [f"mail {first + number}" for number in range(len(some))],
            embeddings=embedder.embed([document.text for document in some]),
            documents=[document.text for document in some],
            metadatas=[{"thread": document.unit} for document in some],
        )
        progress.update(task, completed=first + len(some))
    return Corpus.from_collection(collection, unit_field="thread", embedder=embedder)


def ingest(box: Mailbox, folder: Path, progress: Progress) -> list[Document]:
    """Write the mailbox to disk and read it as a user's would be read."""
    path = folder / "support.mbox"
    box.write(path)
    task = progress.add_task("reading the mailbox", total=len(box.messages))
    loaded = load(path, on_progress=lambda done, _: progress.update(task, completed=done))
    progress.console.print(
        f"{loaded.report.loaded} of {loaded.report.read} messages of {COMPANY}, "
        f"{len({d.unit for d in loaded.documents})} threads; a thread is one privacy unit."
    )
    return loaded.documents


def main(arguments: Sequence[str] = ()) -> int:
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7, help="seed of the made-up mailbox")
    options = parser.parse_args(arguments)
    console = Console()
    started = time.monotonic()
    box = generate(options.seed)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        assistant = open_assistant(box, Path(folder), progress)
        facts = [assistant.ask(fact.question, progress) for fact in box.facts]
        secrets = [assistant.ask(secret.question, progress) for secret in box.secrets]
        again = [assistant.ask_again(fact.again, progress) for fact in box.facts]
        same = assistant.ask_again(box.facts[0].question, progress)

    console.print(_table("Facts that many threads state", facts))
    told = zip(*(answers.texts for answers in facts), strict=True)
    right = [
        sum(fact.is_stated_in(text) for fact, text in zip(box.facts, texts, strict=True))
        for texts in told
    ]
    console.print(_table("Secrets that one message states", secrets))
    # Any secret in any answer is a leak, also one that was not asked for.
    everything = zip(*(answers.texts for answers in facts + secrets), strict=True)
    leaks = [
        sum(any(secret.is_given_away_by(text) for text in texts) for secret in box.secrets)
        for texts in everything
    ]
    console.print(_remembered(box, facts, again))
    total = Table(title="In short", title_justify="left")
    for heading in ("", "no documents", "ordinary RAG", "private"):
        total.add_column(heading)
    total.add_row("facts right", *(f"{n} of {len(box.facts)}" for n in right))
    total.add_row("secrets given away", *(f"{n} of {len(box.secrets)}" for n in leaks))
    private = facts[0].private
    spent = f"epsilon {private.epsilon:g}, delta {private.delta:g}"
    total.add_row("privacy of an answer", "no private data", "none", spent)
    total.add_row("a question asked again, word by word", "", "", f"from memory, rho {same[1]:.3g}")
    console.print(total)
    console.print(f"{time.monotonic() - started:.0f} s in all.")
    return 0


def _table(title: str, rows: list[Answers]) -> Table:
    table = Table(title=title, title_justify="left", show_lines=True)
    for heading in ("question", "no documents", "ordinary RAG", "private", "a unit paid"):
        table.add_column(heading)
    for row in rows:
        table.add_row(row.question, *row.texts, f"rho {row.paid:.3g}")
    return table


def _remembered(
    box: Mailbox, first: list[Answers], again: list[tuple[PrivateAnswer, float]]
) -> Table:
    """Questions in other words, which the memory of the first answers makes cheaper."""
    table = Table(title="Asked in other words, with the memory", title_justify="left")
    for heading in ("question", "private", "right", "a unit paid", "at first"):
        table.add_column(heading)
    for fact, before, (answer, paid) in zip(box.facts, first, again, strict=True):
        right = "yes" if fact.is_stated_in(answer.text) else "no"
        table.add_row(fact.again, answer.text, right, f"rho {paid:.3g}", f"rho {before.paid:.3g}")
    return table


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
