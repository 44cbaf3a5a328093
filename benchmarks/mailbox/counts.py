"""Counts and tallies of the mailbox: how many threads are told, and how many there are?

``python -m benchmarks.mailbox.counts --model FOLDER --epsilon 4`` asks how many threads say yes to
each of twelve questions, and how many are about each of several subjects, and prints the truth, the
number that is told, and its interval. What is within a tenth of the truth or four units is *near*.
A model that cannot count is refused, and says so. ``--every 4`` takes every fourth thread alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.mailbox.made_mailbox import Thread, make_threads
from demos.inbox.generator import Mailbox
from dpicl_rag import ConfigurationError, Document, PrivateContextLLM, load
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.rehearsal import yes_or_no_of
from dpicl_rag.surveys.survey_results import Estimate


def about(*topics: str) -> Callable[[Thread], bool]:
    """Threads of some topics."""
    return lambda thread: thread.topic in topics


QUESTIONS: Mapping[str, Callable[[Thread], bool]] = {
    "Is it about the sauna?": about("sauna closed until", "why the sauna is closed"),
    "Is it about parking?": about("where to park"),
    "Is it about paying by card?": about("payment by card"),
    "Is it about lost property?": about("lost property", "Found a wallet"),
    "Is it about the beginners' course?": about(
        "beginners' teacher", "day of the beginners' course"
    ),
    "Is the price of a ten-visit card mentioned?": about("ten-visit card"),
    "Is it about the deposit for a locker key?": about("locker deposit"),
    "Is the mail written in German?": lambda thread: thread.language == "de",
    "Is it about first aid?": about("first aid"),
    "Is aqua fitness cancelled?": about("aqua fitness cancelled"),
    "Geht es um Öffnungszeiten des Bades?": about("weekday opening", "weekend opening"),
    "Is it about courses on Saturdays?": about("Saturday courses"),
}

SUBJECT = "What is the mail about?"
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "the sauna": ("sauna closed until", "why the sauna is closed"),
    "opening hours": ("weekday opening", "weekend opening"),
    "courses": ("beginners' teacher", "day of the beginners' course", "Saturday courses"),
    "prices and payment": ("ten-visit card", "payment by card", "locker deposit"),
    "lost property": ("lost property",),
    "parking": ("where to park",),
    "first aid": ("first aid",),
}


def near(told: int, true: int) -> bool:
    """Whether a number is within a tenth of the truth, or four units."""
    return abs(told - true) <= max(4.0, true / 10)


def row(name: str, true: int, told: Estimate) -> tuple[str, ...]:
    """One line of the table."""
    inside = told.low <= true <= told.high
    marks = ("near" if near(told.units, true) else "", "holds it" if inside else "")
    return name, str(true), str(told.units), f"{told.low} to {told.high}", *marks


def documents_of(threads: list[Thread]) -> list[Document]:
    """Their mails as documents; a thread is a unit."""
    messages = [message for thread in threads for message in thread.messages]
    messages.sort(key=lambda message: message["Date"].datetime)
    with tempfile.TemporaryDirectory() as folder:
        box = Path(folder) / "mailbox.mbox"
        Mailbox(messages, [], []).write(box)
        return load(box).documents


def main() -> int:
    """Read the command line, ask, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", help="folder or name; the packaged one if left out")
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--questions", type=int, default=len(QUESTIONS), help="the first ones")
    parser.add_argument("--every", type=int, default=1, help="thread that is taken")
    parser.add_argument("--mailbox", type=int, default=0, help="seed of the mailbox")
    parser.add_argument("--anyway", action="store_true", help="count though the model cannot")
    parser.add_argument("--no-tally", action="store_true")
    options = parser.parse_args()
    console = Console(file=sys.stdout)
    whole = default_model() if options.model is None else TransformersModel.load(options.model)
    model = whole.with_cache(PrefixCache(memory=8 << 30))
    threads = make_threads(options.mailbox)[:: options.every]
    documents = documents_of(threads)
    llm = PrivateContextLLM(model, epsilon=options.epsilon)
    console.print(f"by its rehearsal this model {yes_or_no_of(model).clear.verdict}")
    table = Table("question", "true", "told", "interval", "", "")
    asked = list(QUESTIONS.items())[: options.questions]
    for question, says_yes in track(asked, "counting", console=Console(stderr=True)):
        true = sum(map(says_yes, threads))
        try:
            found = llm.count(question, documents, anyway=options.anyway)
        except ConfigurationError as refused:
            console.print(f"{question}: refused: {refused}")
            break
        table.add_row(*row(question, true, found.yes))
    if not options.no_tally:
        topics = {topic: name for name, own in SUBJECTS.items() for topic in own}
        truth = Counter(topics.get(thread.topic, "something else") for thread in threads)
        tally = llm.tally(SUBJECT, [*SUBJECTS, "something else"], documents)
        for name, estimate in tally.counts.items():
            table.add_row(*row(f"tally: {name}", truth[name], estimate))
    console.print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
