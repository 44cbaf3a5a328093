"""Opinions of single records: how many are right, by the model and by vectors?

``python -m benchmarks.opinions`` asks records of AG News and DBpedia what they are about, as a
tally does, and compares what each says with its class. *Beside the public row* is what the library
takes. The model's own answer without a correction, and with that to a content-free question taken
out (Zhao et al. 2021), stand beside it; and the label whose vector is nearest. The data are found
through DPICL_RAG_DATA.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dpicl_rag.answering.label_draw import label_step
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.mechanisms.step import rows_of
from dpicl_rag.prompts import CONTENT_FREE, PromptTemplate, label_tokens
from dpicl_rag.research.tasks import load_task
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder

QUESTION = "What is this article about?"
TOKENS = 256  # read of each record


def rows(
    model: LanguageModel, question: str, texts: Sequence[str], labels: Sequence[str]
) -> torch.Tensor:
    """Log-probabilities of the labels: the row that reads nothing, then each record."""
    prompt = PromptTemplate().cut(model.tokenizer, question)
    tokens = label_tokens(model.tokenizer, labels, prompt.lead)
    allowance = prompt.allowance(model, TOKENS, max(map(len, tokens)))
    inputs = [model.digest((text,), allowance) for text in texts]
    return rows_of(label_step(model, prompt, None, tokens, inputs)).double().log_softmax(dim=-1)


def main() -> None:
    """Ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["agnews", "dbpedia"])
    parser.add_argument("--records", type=int, default=120)
    options = parser.parse_args()
    model, embedder = load_language_model(None), SentenceTransformerEmbedder()
    table = Table("task", "beside the public row", "uncorrected", "content-free", "vectors")
    for name in track(options.tasks, "asking"):
        task = load_task(name)
        items = random.Random(1).sample(list(task.pool), options.records)
        texts = [item.text for item in items]
        truth = torch.tensor([task.labels.index(item.answer) for item in items])
        said = rows(model, QUESTION, texts, task.labels)
        free = rows(model, CONTENT_FREE, texts, task.labels)
        named = embedder.embed([f"{QUESTION} {label}" for label in task.labels])
        near = torch.from_numpy(embedder.embed(texts) @ named.T)
        ways = (said[1:] - said[:1], said[1:], said[1:] - free[1:], near)
        right = [float((way.argmax(dim=-1) == truth).double().mean()) for way in ways]
        table.add_row(name, *(f"{100 * part:.0f} in 100" for part in right))
    Console().print(table)


if __name__ == "__main__":
    main()
