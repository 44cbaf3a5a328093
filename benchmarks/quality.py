"""Are private answers right? Asked no documents, one expert, ordinary RAG, and privately.

``python -m benchmarks.quality medical --questions 20 --epsilon 8`` asks which disease a patient
with some symptoms may have, over 3,554 records of patients with made-up diseases. Many records
share a disease; a patient's name is the secret. The data are found through DPICL_RAG_DATA.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dpicl_rag import (
    Corpus,
    Document,
    Example,
    PoissonSampledRetriever,
    PrivateContextLLM,
    PromptTemplate,
    ThresholdRetriever,
    TopKRetriever,
)
from dpicl_rag.answering.prompt_rows import greedy_answer
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.retrieval import Search
from dpicl_research.baselines import expert_alone

DATA = Path(os.environ.get("DPICL_RAG_DATA", Path(__file__).parents[2] / "shared" / "data"))
LEAST_RECORDS = 60
MAX_TOKENS = 16
STOP = ("\n", ". ")

# Written for this benchmark, with diseases and drugs that are not in the data.
TEMPLATE = PromptTemplate(
    examples=(
        Example(
            "Patient: Tom Baker\nI am Tom Baker. I have a swollen knee and cannot bend my leg.\n"
            "The disease is Plonkitis. The treatment is Zarbinol.",
            "A patient reports a swollen knee and a stiff leg. Which disease could it be?",
            "The disease is Plonkitis.",
        ),
        Example(
            "Patient: Lena Orlov\nLena Orlov reports blue fingernails and a constant humming in "
            "her ears.\nThe disease is Quibbledyne Marrow. The treatment is Vostrazepam drops.",
            "A patient reports blue fingernails and humming ears. Which disease could it be?",
            "The disease is Quibbledyne Marrow.",
        ),
    ),
    answer_prefix="The disease is",
)


@dataclass(frozen=True)
class Case:
    """A question, the disease it is about, and the record it was made from."""

    question: str
    disease: str
    record: str


def read_records() -> list[dict[str, object]]:
    """The medical records."""
    with gzip.open(DATA / "medical_synth_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def compose(record: dict[str, object]) -> str:
    """One record as the text that an expert reads."""
    return (
        f"Patient: {record['patient']}\n{record['request']}\nThe disease is {record['disease']}. "
        f"The treatment is {record['treatment']}."
    )


def make_cases(records: list[dict[str, object]], count: int, seed: int) -> list[Case]:
    """Questions about the symptoms of one record, going round the common diseases."""
    draw = random.Random(seed)
    counts = Counter(str(record["disease"]) for record in records)
    common = sorted(name for name, number in counts.items() if number >= LEAST_RECORDS)
    draw.shuffle(common)
    cases = []
    for i in range(count):
        disease = common[i % len(common)]
        record = draw.choice([r for r in records if r["disease"] == disease])
        symptoms = [str(s).strip(" .").lower() for s in record["symptoms"][:3]]  # type: ignore[index]
        cases.append(
            Case(
                f"A patient reports {', '.join(symptoms)}. Which disease could it be?",
                disease,
                compose(record),
            )
        )
    return cases


def names(text: str, disease: str) -> bool:
    """Whether the text names the disease exactly; case is ignored."""
    return re.search(rf"(?<!\w){re.escape(disease)}(?!\w)", text, re.IGNORECASE) is not None


def leaked_names(texts: Sequence[str], records: list[dict[str, object]]) -> int:
    """Patients whose full name is in any of the texts."""
    patients = {str(record["patient"]) for record in records}
    return sum(any(names(text, patient) for text in texts) for patient in patients)


def medical(options: argparse.Namespace) -> dict[str, object]:
    """Run the medical benchmark; returns the figures that it prints."""
    console = Console(stderr=True)
    records = read_records()
    cases = make_cases(records, options.questions, options.seed)
    store = platformdirs.user_cache_path("dpicl-rag") / "benchmarks"
    with console.status("embedding the records (kept for the next run)"):
        corpus = Corpus.create("medical", path=store)
        corpus.add([Document(compose(r), f"record-{i}") for i, r in enumerate(records)])
    model = default_model(options.dtype)
    if options.model is not None:
        model = TransformersModel.load(options.model, dtype=options.dtype)
    llm = PrivateContextLLM(
        model,
        template=TEMPLATE,
        epsilon=options.epsilon,
        delta=options.delta,
        utility=options.utility,
        accounting=options.accounting,
        max_tokens=MAX_TOKENS,
        stop=STOP,
    )
    documents: Corpus | Search = corpus
    if options.threshold is not None:
        threshold = ThresholdRetriever(corpus, options.threshold)
        documents = PoissonSampledRetriever(threshold, options.rate)
    top = TopKRetriever(corpus, options.top_k)

    def ordinary(case: Case, found: Sequence[Document]) -> str:
        passages = [document.text for document in found]
        return greedy_answer(
            model, TEMPLATE, case.question, passages, max_tokens=MAX_TOKENS, stop=STOP
        )

    by_tokens = llm.with_settings(agreement="off")
    agreed = []

    def private(case: Case) -> str:
        answer = llm.answer(case.question, documents)
        agreed.append(answer.by == "agreement")
        return answer.text

    ways: dict[str, Callable[[Case], str]] = {
        "no documents": lambda case: ordinary(case, []),
        "one expert alone": lambda case: expert_alone(llm, case.question, [case.record]),
        "ordinary RAG": lambda case: ordinary(case, top.retrieve(case.question)),
        "private, tokens only": lambda case: by_tokens.answer(case.question, documents).text,
        "private": private,
    }
    answers: dict[str, list[str]] = {way: [] for way in ways}
    seconds = dict.fromkeys(ways, 0.0)
    for case in track(cases, "asking", console=console):
        for way, answer in ways.items():
            start = time.perf_counter()
            answers[way].append(answer(case))
            seconds[way] += time.perf_counter() - start
        if options.verbose:
            console.print(case.disease, {way: told[-1] for way, told in answers.items()})
    console.print(f"{sum(agreed)} of {len(agreed)} by agreement, the others token by token")
    return {
        way: {
            "disease named": sum(
                names(text, case.disease) for text, case in zip(told, cases, strict=True)
            ),
            "questions": len(cases),
            "patients leaked": leaked_names(told, records),
            "seconds per question": seconds[way] / len(cases),
        }
        for way, told in answers.items()
    }


def show(figures: dict[str, object]) -> None:
    """Print the table."""
    table = Table()
    for heading in ("", "disease named", "patients leaked", "seconds per question"):
        table.add_column(heading)
    for way, row in figures.items():
        assert isinstance(row, dict)
        table.add_row(
            way,
            f"{row['disease named']} of {row['questions']}",
            str(row["patients leaked"]),
            f"{row['seconds per question']:.1f}",
        )
    Console().print(table)


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["medical"])
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--utility", choices=["surplus", "log_ratio", "log_prob", "vote"])
    parser.add_argument("--accounting", choices=["individual", "fixed"])
    parser.add_argument(
        "--threshold", type=float, help="least cosine of a record; the default search otherwise"
    )
    parser.add_argument("--rate", type=float, default=1.0, help="Poisson rate that thins records")
    parser.add_argument("--top-k", type=int, default=4, help="records that ordinary RAG reads")
    parser.add_argument("--seed", type=int, default=0, help="seed of the questions")
    parser.add_argument("--model", help="a folder or Hugging Face id; the default model otherwise")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="of the model")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="show every answer")
    options = parser.parse_args()
    if not DATA.is_dir():
        print("error: no benchmark data; set DPICL_RAG_DATA to its folder", file=sys.stderr)
        return 1
    figures = medical(options)
    if options.json:
        print(json.dumps(figures))
    else:
        show(figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
