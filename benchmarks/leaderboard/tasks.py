"""Questions of the leaderboard, and the private documents that answer them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import quality
from benchmarks.asked_corpus import Question
from benchmarks.mailbox.made_mailbox import make_mailbox, read_questions
from dpicl_rag import Corpus, Document, PromptTemplate, load


@dataclass(frozen=True)
class Task:
    """Documents, and what is asked of them.

    Attributes:
        corpus: Makes the corpus, or opens it, in a folder.
        questions: What is asked.
        template: Of all methods.
        max_tokens: Of an answer.
        stop: What ends it.
        bar: See `Setting`. For the medical records chosen by a look at the documents, which is not
            charged for; for the mailbox a guess.
    """

    corpus: Callable[[Path], Corpus]
    questions: Callable[[], list[Question]]
    template: PromptTemplate
    max_tokens: int
    stop: tuple[str, ...]
    bar: float


def _medical(folder: Path) -> Corpus:
    corpus = Corpus.create("medical", path=folder)
    texts = map(quality.compose, quality.read_records())
    corpus.add([Document(text, f"record-{at}") for at, text in enumerate(texts)])
    return corpus


def _symptoms() -> list[Question]:
    cases = quality.make_cases(quality.read_records(), 20, seed=0)
    return [
        Question(one.question, "disease", right=(rf"(?<!\w){re.escape(one.disease)}(?!\w)",))
        for one in cases
    ]


def _mailbox(folder: Path) -> Corpus:
    folder.mkdir(parents=True, exist_ok=True)
    box = folder / "mailbox.mbox"
    make_mailbox(0).write(box)
    corpus = Corpus.create("mailbox-0", path=folder)
    corpus.add(load(box).documents)
    return corpus


def _mail_questions() -> list[Question]:
    # Others have no rule for follow-ups.
    return [one for one in read_questions() if not one.turns]


TASKS = {
    "medical": Task(
        *(_medical, _symptoms, quality.TEMPLATE, quality.MAX_TOKENS, quality.STOP), bar=0.65
    ),
    "mailbox": Task(_mailbox, _mail_questions, PromptTemplate(), 32, (), bar=0.4),
}
