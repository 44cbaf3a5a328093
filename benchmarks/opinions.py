"""Opinions of single records: how many are right, by the model and by vectors?

``python -m benchmarks.opinions`` asks records of AG News and DBpedia what they are about, as a
tally does, and compares what each says with its class. *Beside the public row* is what the library
takes. The model's own answer without a correction, and with that to a content-free question taken
out (Zhao et al. 2021), stand beside it; and the label whose vector is nearest. The data are found
through DPICL_RAG_DATA.

``python -m benchmarks.opinions --mailbox 2000`` reads the made-up mailbox: how far a count is from
what the model itself sees, and how far a tally's shares are from the true ones.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.made_up_complaints import PROBLEMS, QUESTION, complaints
from dpicl_rag.accounting import DIRECT
from dpicl_rag.answering.labels import label_step
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step, rows_of
from dpicl_rag.prompts import CONTENT_FREE, PromptTemplate, label_tokens
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.surveys.count_plans import tally_plan
from dpicl_rag.surveys.opinions import opinions
from dpicl_rag.surveys.tallies import YES_OR_NO
from dpicl_research.tasks import load_task

ABOUT = "What is this article about?"
REFUND = "Does the writer want money back?"
TOKENS = 256  # read of each record
DRAWS = 500


def asked(model: LanguageModel, question: str, texts: Sequence[str], labels: Sequence[str]) -> Step:
    """Log-probabilities of the labels: the row that reads nothing, and each record."""
    prompt = PromptTemplate().cut(model.tokenizer, question)
    tokens = label_tokens(model.tokenizer, labels, prompt.lead)
    allowance = prompt.allowance(model, TOKENS, max(map(len, tokens)))
    inputs = [model.digest((text,), allowance) for text in texts]
    return label_step(model, prompt, None, tokens, inputs)


def rows(
    model: LanguageModel, question: str, texts: Sequence[str], labels: Sequence[str]
) -> torch.Tensor:
    """The rows of `asked`, each a distribution over the labels; the first reads nothing."""
    return rows_of(asked(model, question, texts, labels)).double().log_softmax(dim=-1)


def by_record(names: Sequence[str], units: int, model: LanguageModel) -> Table:
    """How many of some records of each task are right, by four ways."""
    table = Table("task", "beside the public row", "uncorrected", "content-free", "vectors")
    embedder = SentenceTransformerEmbedder()
    for name in track(names, "asking"):
        task = load_task(name)
        items = random.Random(1).sample(list(task.pool), units)
        texts = [item.text for item in items]
        truth = torch.tensor([task.labels.index(item.answer) for item in items])
        said = rows(model, ABOUT, texts, task.labels)
        free = rows(model, CONTENT_FREE, texts, task.labels)
        named = embedder.embed([f"{ABOUT} {label}" for label in task.labels])
        near = torch.from_numpy(embedder.embed(texts) @ named.T)
        ways = (said[1:] - said[:1], said[1:], said[1:] - free[1:], near)
        right = [float((way.argmax(dim=-1) == truth).double().mean()) for way in ways]
        table.add_row(name, *(f"{100 * part:.0f} in 100" for part in right))
    return table


def of_mailbox(threads: int, model: LanguageModel) -> Table:
    """Counts and tallies of the made-up mailbox: what is seen, what is told and what is true."""
    texts, answers = zip(*complaints(threads), strict=True)
    coins = Randomness()
    table = Table("asked", "epsilon", "seen", "true", "told beside seen", "told beside true")
    for question, labels in ((REFUND, YES_OR_NO), (QUESTION, tuple(PROBLEMS))):
        counting = labels is YES_OR_NO
        of = ("refund",) if counting else labels
        true = torch.tensor([answers.count(label) for label in of], dtype=torch.float64)
        votes = opinions(asked(model, question, texts, labels))[:, : len(of)].sum(dim=0)
        for epsilon in (1.0, 2.0):
            config = PrivacyConfig.create(epsilon=epsilon, delta=1e-5)
            noise = tally_plan(config, DIRECT, 0.0, len(of)).mechanism
            drawn = [noise.draw(votes.tolist(), coins) for _ in range(DRAWS)]
            told = torch.tensor(drawn, dtype=torch.float64)
            # Of a count the error in its own units, of a tally that of its worst share.
            whole = float(votes[0]) if counting else float(threads)
            errors = [
                100 * float((told - beside).abs().amax(dim=1).quantile(0.95)) / whole
                for beside in (votes.double(), true)
            ]
            table.add_row(
                question,
                f"{epsilon:g}",
                " ".join(str(int(one)) for one in votes),
                " ".join(str(int(one)) for one in true),
                *(f"{one:.1f} %" for one in errors),
            )
    return table


def main() -> None:
    """Ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["agnews", "dbpedia"])
    parser.add_argument("--records", type=int, default=120)
    parser.add_argument("--mailbox", type=int, metavar="THREADS")
    options = parser.parse_args()
    model = load_language_model(None)
    if options.mailbox:
        table = of_mailbox(options.mailbox, model)
    else:
        table = by_record(options.tasks, options.records, model)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
