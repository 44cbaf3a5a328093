"""What answers lose where a server shows only the likeliest tokens of each row.

    python -m benchmarks.shown_tokens

Asks the demo's questions of the default model in float32. At every token the rows that were read
are cut as a server would show them, and what the token is drawn from is compared with what the
whole rows give, in total variation. Prints a table for docs/engines.md.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from demos.email_assistant import CORPUS, EPSILON, MAX_TOKENS, TEMPLATE
from demos.inbox.generator import generate
from dpicl_rag import Corpus, NotPrivateWarning, PrivateContextLLM, load
from dpicl_rag.configuration import UtilityName
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.openai_compatible.server_rows import expert_rows, public_row
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.step import DenseStep

SHOWN = ((1000, 20), (1000, 100), (20, 20), (5, 5))  # of the public row, and of an expert
QUESTIONS: dict[UtilityName, int] = {"surplus": 3, "log_prob": 1, "vote": 1, "log_ratio": 1}


def cut(step: DenseStep, public: int, expert: int) -> DenseStep:
    """A step as a server shows it."""
    bare = public_row(_likeliest(step.public, public), len(step.public))
    return DenseStep(bare, expert_rows([_likeliest(row, expert) for row in step.experts], bare))


def _likeliest(row: torch.Tensor, count: int) -> dict[int, float]:
    found = row.topk(min(count, len(row)))
    return dict(zip(found.indices.tolist(), found.values.tolist(), strict=True))


def measure(
    model: Any, documents: Any, questions: Sequence[str], utility: UtilityName
) -> dict[tuple[int, int], list[float]]:
    """Total variation at every token, by how many tokens are shown."""
    apart: dict[tuple[int, int], list[float]] = {shown: [] for shown in SHOWN}
    draw = ExponentialMechanism.draw

    def watched(self: ExponentialMechanism, step: Any, *given: Any) -> int:
        whole = self.distribution(step)
        for shown, found in apart.items():
            found.append(float((whole - self.distribution(cut(step, *shown))).abs().sum() / 2))
        return draw(self, step, *given)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        llm = PrivateContextLLM(
            model,
            template=TEMPLATE,
            epsilon=EPSILON,
            max_tokens=MAX_TOKENS,
            stop=("\n",),
            utility=utility,
            unsupported="ignore",
            seed=0,
        )
    ExponentialMechanism.draw = watched  # type: ignore[method-assign]
    try:
        for question in questions:
            llm.answer(question, documents)
    finally:
        ExponentialMechanism.draw = draw  # type: ignore[method-assign]
    return apart


def main() -> None:
    """Measure and print."""
    box, model = generate(7), default_model("float32")
    print("| utility | public row | expert | tokens | mean | largest |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "support.mbox")
        box.write(path)
        with closing(Corpus.create(CORPUS, path=Path(folder, "chroma"))) as corpus:
            corpus.add(load(path).documents)
            for utility, count in QUESTIONS.items():
                asked = [fact.question for fact in box.facts[1 : 1 + count]]
                for (public, expert), apart in measure(model, corpus, asked, utility).items():
                    mean, most = sum(apart) / len(apart), max(apart)
                    figures = f"{len(apart)} | {mean:.2g} | {most:.2g}"
                    print(f"| {utility} | {public} | {expert} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
