"""Questions for `benchmarks.readers`: records of patients, and passages that many people saved.

Natural Questions has one passage for each question, and no private answer comes from one unit. So
``nq`` has 48 people to each question, each of whom saved an excerpt of its passage: the sentence
that states the answer, and up to two before and after it. Others saved something else. People have
made-up names, which are the secret.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

from benchmarks import quality
from dpicl_rag import Document, PromptTemplate
from dpicl_rag.answering.canonical_form import canonical_form

HOLDERS = 48
"""People who saved a passage that answers a question."""

OTHERS = 1000
"""People who saved something else."""

_AROUND = 2  # sentences before and after the one that answers, at most
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_STATED = re.compile(r"The disease is [^.]+\.")
_STARTS = ("Bra", "Cor", "Dal", "Fen", "Gor", "Hal", "Jes", "Kel", "Lor", "Mir", "Nev", "Ost")
_MIDDLES = ("a", "e", "i", "o", "u", "y")
_ENDS = ("bick", "dun", "fell", "gam", "lish", "mont", "nard", "quist", "rop", "sley", "vik", "zer")


@dataclass(frozen=True)
class Case:
    """A question.

    Attributes:
        question: Public.
        answers: Whichever is right.
        perfect: What a perfect reader replies to a prompt with one document.
    """

    question: str
    answers: tuple[str, ...]
    perfect: Callable[[str], str] = field(repr=False)

    def right(self, text: str) -> bool:
        """Whether a text gives one of the answers, as it is or in canonical form."""
        forms = ((answer, canonical_form(answer) or answer) for answer in self.answers)
        return any(quality.names(text, form) for both in forms for form in both)


@dataclass(frozen=True)
class Task:
    """Questions, who saved what, and how a model that writes is asked.

    Attributes:
        name: Of the corpus.
        cases: Questions.
        documents: One for each unit.
        secrets: Names that no answer may have.
        template: Of the model that writes.
        max_tokens: Of what it writes.
        stop: Where it ends.
    """

    name: str
    cases: Sequence[Case]
    documents: Sequence[Document]
    secrets: Sequence[str]
    template: PromptTemplate
    max_tokens: int
    stop: tuple[str, ...]

    def leaked(self, texts: Sequence[str]) -> int:
        """How many of the secret names are in any of the texts."""
        told = "\n".join(texts)
        return sum(quality.names(told, name) for name in set(self.secrets))


def medical(questions: int, seed: int) -> Task:
    """Records of patients with made-up diseases, as in ``benchmarks.quality``."""
    records = quality.read_records()
    asked = quality.make_cases(records, questions, seed)
    return Task(
        "medical",
        [Case(case.question, (case.disease,), disease_of) for case in asked],
        [Document(quality.compose(record), f"record-{i}") for i, record in enumerate(records)],
        [str(record["patient"]) for record in records],
        quality.TEMPLATE,
        quality.MAX_TOKENS,
        quality.STOP,
    )


def disease_of(text: str) -> str:
    """The sentence of a record, or of a prompt with one, that names the disease."""
    found = _STATED.search(text)
    return found.group() if found else "NOTHING"


def natural_questions(questions: int, seed: int) -> Task:
    """Questions of the web, each with the people who saved the passage that answers it."""
    with gzip.open(quality.DATA / "nq_oracle.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    draw = random.Random(seed)
    draw.shuffle(rows)
    asked = [row for row in rows if _place(row["passage"], row["answers"]) is not None][:questions]
    titles = {row["title"] for row in asked}
    others = [row for row in rows if row["title"] not in titles][:OTHERS]
    owners = _names(draw)
    cases: list[Case] = []
    documents: list[Document] = []
    secrets: list[str] = []

    def save(title: str, excerpt: str) -> None:
        owner = next(owners)
        secrets.append(owner)
        documents.append(Document(saved(owner, title, excerpt), f"note-{len(documents)}"))

    for row in asked:
        for _ in range(HOLDERS):
            save(row["title"], excerpt_of(row["passage"], row["answers"], draw))
        perfect = partial(_short_answer, row["title"], tuple(row["answers"]))
        cases.append(Case(row["question"], tuple(row["answers"]), perfect))
    for row in others:
        save(row["title"], " ".join(_SENTENCE.split(row["passage"])[: 1 + _AROUND]))
    return Task(f"nq-{questions}-{seed}", cases, documents, secrets, PromptTemplate(), 32, ("\n",))


def saved(owner: str, title: str, excerpt: str) -> str:
    """What one person saved."""
    return f"Saved by {owner}, from the page {title}\n{excerpt}"


def excerpt_of(passage: str, answers: Sequence[str], draw: random.Random) -> str:
    """The sentence of a passage that states an answer, and some around it.

    Args:
        passage: It has such a sentence.
        answers: Whichever is right.
        draw: How many around it.
    """
    sentences, at = _SENTENCE.split(passage), _place(passage, answers)
    assert at is not None
    before, after = draw.randint(0, _AROUND), draw.randint(0, _AROUND)
    return " ".join(sentences[max(0, at - before) : at + after + 1])


def _place(passage: str, answers: Sequence[str]) -> int | None:
    """The first sentence that states an answer; None where there is none."""
    sentences = enumerate(_SENTENCE.split(passage))
    return next((at for at, one in sentences if _given(one, answers) is not None), None)


def _given(text: str, answers: Sequence[str]) -> str | None:
    return next((answer for answer in answers if quality.names(text, answer)), None)


def _short_answer(title: str, answers: tuple[str, ...], prompt: str) -> str:
    """The answer, where the document is of the page that has it and states it."""
    _, _, rest = prompt.partition(f", from the page {title}\n")
    found = _given(rest.partition("\n\nQuestion: ")[0], answers)
    return "NOTHING" if found is None else found


def _names(draw: random.Random) -> Iterator[str]:
    """Made-up names of people, all different."""
    parts = list(map("".join, product(_STARTS, _MIDDLES, _ENDS)))
    first, last = draw.sample(parts, len(parts)), draw.sample(parts, len(parts))
    for shift in range(len(parts)):
        for at, name in enumerate(first):
            yield f"{name} {last[(at + shift) % len(last)]}"


TASKS = {"medical": medical, "nq": natural_questions}
