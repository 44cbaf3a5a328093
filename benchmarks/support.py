"""Is what is marked as supported right, and do worked examples bleed into answers?

``python -m benchmarks.support --runs 3`` asks 20 questions that medical records answer, 20 that
none of them does, and the facts and secrets of the email demo, several times each. It counts the
answers that are marked as supported, and those that hold a word which only the worked examples of
the template can have brought. The data are found through DPICL_RAG_DATA.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import platformdirs
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import quality
from demos import email_assistant
from demos.inbox.generator import generate
from dpicl_rag import Corpus, Document, PrivateContextLLM, PromptTemplate, load
from dpicl_rag.language_models.defaults import default_model

UNANSWERED = (
    "Which insurance company paid for the treatment?",
    "What is the telephone number of the hospital?",
    "How much does a night in the ward cost?",
    "Who is the head of the surgery department?",
    "What time does the pharmacy close on Sundays?",
    "In which town was the clinic built?",
    "What is the name of the hospital's cat?",
    "Which bus goes to the clinic?",
    "How many beds does the new wing have?",
    "What colour are the walls of the waiting room?",
    "Who won the staff's chess tournament?",
    "What does a parking permit for visitors cost?",
    "Which firm delivers the bread to the kitchen?",
    "On which day is the fire drill?",
    "What is the password of the guest network?",
    "How old is the chief physician?",
    "Which language school do the nurses visit?",
    "What is served in the canteen on Friday?",
    "Where does the ambulance driver live?",
    "Which university wrote the study about sleep?",
)
WORDS = re.compile(r"[A-Za-z]{4,}")


@dataclass
class Tally:
    """What came out of one kind of question."""

    asked: int = 0
    right: int = 0
    supported_right: int = 0
    supported: int = 0
    bled: list[str] = field(default_factory=list)


def brought_by_examples(template: PromptTemplate, documents: Sequence[str]) -> set[str]:
    """Words of the worked examples that no document and nothing else of the template holds."""

    def words(*texts: str) -> set[str]:
        return {word.lower() for text in texts for word in WORDS.findall(text)}

    examples = [text for e in template.examples for text in (e.document, e.question, e.answer)]
    others = words(template.system, template.user, template.answer_prefix, *documents)
    return words(*examples) - others


def ask(
    llm: PrivateContextLLM,
    corpus: Corpus,
    questions: Sequence[tuple[str, Callable[[str], bool]]],
    examples: set[str],
    console: Console,
) -> Tally:
    """Put questions, each with what tells a right answer."""
    tally = Tally()
    for question, is_right in track(questions, "asking", console=console):
        answer = llm.answer(question, corpus)
        right, own = is_right(answer.text), {w.lower() for w in WORDS.findall(question)}
        tally.asked += 1
        tally.right += right
        tally.supported += bool(answer.supported)
        tally.supported_right += right and bool(answer.supported)
        if {w.lower() for w in WORDS.findall(answer.text)} & (examples - own):
            tally.bled.append(answer.text)
    return tally


def medical(options: argparse.Namespace, console: Console) -> dict[str, Tally]:
    """Records of patients, with the settings of ``benchmarks.quality``."""
    records = quality.read_records()
    texts = [quality.compose(record) for record in records]
    corpus = Corpus.create("medical", path=platformdirs.user_cache_path("dpicl-rag") / "benchmarks")
    corpus.add([Document(text, f"record-{i}") for i, text in enumerate(texts)])
    model, tallies = default_model(), {}
    cases = quality.make_cases(records, options.questions, options.seed)
    asked = [(case.question, partial(quality.names, disease=case.disease)) for case in cases]
    unasked = [(question, _never) for question in UNANSWERED]
    for name, template, questions in (
        ("medical, answered by records", quality.TEMPLATE, asked),
        ("medical, answered by none", PromptTemplate(), unasked),
    ):
        llm = PrivateContextLLM(
            model, template=template, max_tokens=quality.MAX_TOKENS, stop=quality.STOP
        )
        examples = brought_by_examples(template, texts)
        tallies[name] = ask(llm, corpus, questions, examples, console)
    return tallies


def mail(options: argparse.Namespace, console: Console) -> dict[str, Tally]:
    """Facts and secrets of the demo, each asked anew in every run."""
    box, template = generate(), email_assistant.TEMPLATE
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "support.mbox"
        box.write(path)
        documents = load(path).documents
        corpus = Corpus.create("support-mail", path=Path(folder) / "chroma")
        corpus.add(documents)
        llm = PrivateContextLLM(
            template=template,
            epsilon=email_assistant.EPSILON,
            max_tokens=email_assistant.MAX_TOKENS,
            stop=("\n",),
        )
        examples = brought_by_examples(template, [document.text for document in documents])
        facts = [(fact.question, fact.is_stated_in) for fact in box.facts]
        secrets = [(secret.question, secret.is_given_away_by) for secret in box.secrets]
        return {
            "demo, facts": ask(llm, corpus, facts * options.runs, examples, console),
            "demo, secrets": ask(llm, corpus, secrets * options.runs, examples, console),
        }


def _never(text: str) -> bool:
    return False


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--questions", type=int, default=20, help="that records answer")
    parser.add_argument("--runs", type=int, default=3, help="of the demo's questions")
    parser.add_argument("--seed", type=int, default=0, help="of the medical questions")
    options = parser.parse_args()
    if not quality.DATA.is_dir():
        print("error: no benchmark data; set DPICL_RAG_DATA to its folder", file=sys.stderr)
        return 1
    progress = Console(stderr=True)
    columns = ("", "asked", "right", "right and supported", "supported", "with words of examples")
    table = Table(*columns)
    for name, tally in (*medical(options, progress).items(), *mail(options, progress).items()):
        figures = (tally.asked, tally.right, tally.supported_right, tally.supported)
        table.add_row(name, *map(str, figures), str(len(tally.bled)))
        for text in tally.bled:
            progress.print(f"{name}: {text}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
