"""An answer and all that must not change with the engine: tokens, labels, charges."""

from __future__ import annotations

import sqlite3
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

from dpicl_rag import Ledger, PrivateContextLLM
from dpicl_rag.language_models.base import speaks
from dpicl_rag.mechanisms.randomness import NotPrivateWarning

DOCUMENTS = [
    *(f"Note {at}: the code of the {'red ' * at}door is 44{at % 3}." for at in range(5)),
    "The code is 441, says Ida.",
    "Lunch is at noon, and the soup is cold again.",
]
QUESTION = "What is the code?"


def answered(
    model: Any,
    folder: Path,
    *,
    documents: Any = DOCUMENTS,
    question: str = QUESTION,
    labels: tuple[str, ...] = (),
    method: str | None = None,
    knowledge: Any = None,
    seed: int = 5,
    **settings: Any,
) -> tuple[Any, list[tuple[int, ...]]]:
    """An answer, or a label, and what stands in the ledger: of the whole, and of each unit."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}.sqlite"
    with warnings.catch_warnings(), Ledger(path) as ledger:
        warnings.simplefilter("ignore", NotPrivateWarning)
        ledger.set_budget(corpus="default", rho=1000.0, unit_rho=1000.0, thresholds=0.5)
        if not labels and speaks(model):
            settings.setdefault("agreement", "auto")  # rows draw tokens, too
        llm = PrivateContextLLM(model, ledger=ledger, knowledge=knowledge, seed=seed, **settings)
        if labels:
            found: Any = llm.classify(question, documents, labels, method=method)
        else:
            found = llm.answer(question, documents)
        assert all(status.reserved == 0 for status in ledger.status())
    with closing(sqlite3.connect(path)) as connection:
        spent = connection.execute("SELECT fixed, individual, questions FROM spend").fetchall()
        units = sorted(connection.execute("SELECT spent FROM unit").fetchall())
    return found, [*spent, *units]
