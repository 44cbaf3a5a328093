"""Counts and tallies of the mailbox: how many threads are told, and how many there are?

``python -m benchmarks.mailbox.counts --model FOLDER --epsilon 4`` asks how many threads say yes to
each of twelve questions, and how many are about each of several subjects, and prints the truth, the
number that is told, and its interval. What is within a tenth of the truth or four units is *near*.
A model that cannot count is refused, and says so. ``--every 4`` takes every fourth thread alone.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.counted_corpus import Counts, count_all, counting_options
from benchmarks.mailbox.made_mailbox import Thread, make_threads
from demos.inbox.generator import Mailbox
from dpicl_rag import Document, load


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

SUBJECT, ELSE = "What is the mail about?", "something else"
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "the sauna": ("sauna closed until", "why the sauna is closed"),
    "opening hours": ("weekday opening", "weekend opening"),
    "courses": ("beginners' teacher", "day of the beginners' course", "Saturday courses"),
    "prices and payment": ("ten-visit card", "payment by card", "locker deposit"),
    "lost property": ("lost property",),
    "parking": ("where to park",),
    "first aid": ("first aid",),
}


def documents_of(threads: list[Thread]) -> list[Document]:
    """Their mails as documents; a thread is a unit."""
    messages = [message for thread in threads for message in thread.messages]
    messages.sort(key=lambda message: message["Date"].datetime)
    with tempfile.TemporaryDirectory() as folder:
        box = Path(folder) / "mailbox.mbox"
        Mailbox(messages, [], []).write(box)
        return load(box).documents


def counts_of(threads: list[Thread]) -> Counts:
    """What is counted in some threads."""
    topics = {topic: name for name, own in SUBJECTS.items() for topic in own}
    truth = Counter(topics.get(thread.topic, ELSE) for thread in threads)
    asked = {question: sum(map(yes, threads)) for question, yes in QUESTIONS.items()}
    labels = {name: truth[name] for name in (*SUBJECTS, ELSE)}
    return Counts(asked, SUBJECT, labels, documents_of(threads))


def main() -> int:
    """Read the command line, ask, and print."""
    parser = counting_options(__doc__ or "")
    parser.add_argument("--every", type=int, default=1, help="thread that is taken")
    parser.add_argument("--mailbox", type=int, default=0, help="seed of the mailbox")
    options = parser.parse_args()
    count_all(counts_of(make_threads(options.mailbox)[:: options.every]), options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
