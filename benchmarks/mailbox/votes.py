"""Votes of the mailbox: what each of the nearest threads says to a question, and how alike.

``python -m benchmarks.mailbox.votes --model FOLDER --units 64`` asks every expert by itself, with
worked examples of NOTHING in the question's language. It counts the experts that speak, and the
largest number of them that say the same: as a whole sentence in canonical form, as names and
numbers of it, and as a key of the kind that the question asks for (`answer_keys.py`). Nothing of it
is private, and nothing is released: it shows what a rule of counting could get.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.asked_corpus import Question, cached_model
from benchmarks.mailbox.made_mailbox import make_mailbox, read_questions, threads_of_facts
from dpicl_rag import Corpus, PromptTemplate, TopKRetriever, load
from dpicl_rag.answering.canonical_form import canonical_form, vote_for
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.documents import group_by_unit
from dpicl_rag.language_models.base import SpeakingRows
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.languages.answer_keys import AnswerKeys
from dpicl_rag.languages.languages import SILENT
from dpicl_rag.languages.sentences import first_sentence

MOST_TOKENS = 32
UNIT_TOKENS = 256


def said_by_experts(model: TransformersModel, question: str, units: Sequence[str]) -> list[str]:
    """The sentence that each expert says by itself.

    Args:
        model: Reads them.
        question: What is asked.
        units: Texts, one for each expert.
    """
    prompt = PromptTemplate().silent_for(question).cut(model.tokenizer, question)
    inputs = [model.digest([text], UNIT_TOKENS) for text in units]
    rows = read(model, prompt, inputs, room=MOST_TOKENS)
    assert isinstance(rows, SpeakingRows)
    said = rows.continue_each(prompt.suffix, MOST_TOKENS, [True] * len(units))
    return [first_sentence(model.tokenizer.decode(one.tokens)) for one in said]


def largest(sentences: Iterable[str], key: Callable[[str], str | None]) -> tuple[str, int]:
    """The key that most sentences have, and how many."""
    counts = Counter(found for one in sentences if (found := key(one)))
    return counts.most_common(1)[0] if counts else ("", 0)


def row(question: Question, told: int, said: Sequence[str]) -> tuple[str, ...]:
    """One line of the table."""
    speak = [one for one in said if SILENT not in one]

    def short(one: str) -> str | None:
        vote = vote_for(one, question.text, canonical_form)
        return None if vote is None else vote.short

    keys = (canonical_form, short, AnswerKeys(question.text).of)
    counted = (largest(speak, key) for key in keys)
    right = sum(question.is_right(one) for one in speak)
    return (
        question.text,
        *map(str, (told, len(said), len(speak), right)),
        *(f"{number} {found}" for found, number in counted),
    )


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", help="folder or name; the packaged one if left out")
    parser.add_argument("--units", type=int, default=64, help="nearest threads that are asked")
    parser.add_argument("--questions", type=int, default=24, help="the first ones alone")
    parser.add_argument("--mailbox", type=int, default=0, help="seed of the mailbox")
    parser.add_argument("--out", type=Path, help="file of sentences, a JSON line for each question")
    options = parser.parse_args()
    model = cached_model(options.model)
    columns = ("in the mailbox", "asked", "speak", "right", "whole", "names, numbers", "key")
    table = Table("question", *columns)
    with tempfile.TemporaryDirectory() as folder:
        box = Path(folder) / "mailbox.mbox"
        make_mailbox(options.mailbox).write(box)
        corpus = Corpus.create("mailbox", path=folder)
        corpus.add(load(box).documents)
        stating = threads_of_facts()
        for question in track(read_questions()[: options.questions], console=Console(stderr=True)):
            found = TopKRetriever(corpus, options.units).retrieve(question.text)
            units = ["\n\n".join(one.text for one in own) for own in group_by_unit(found).values()]
            said = said_by_experts(model, question.text, units)
            table.add_row(*row(question, stating.get(question.fact, 0), said))
            if options.out is not None:
                with options.out.open("a", encoding="utf-8") as file:
                    print(json.dumps({"question": question.text, "said": said}), file=file)
    Console(file=sys.stdout).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
