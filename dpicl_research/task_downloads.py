"""The tasks' data from the Hugging Face hub, for users without the data folder."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from dpicl_rag.errors import ConfigurationError, MissingDependencyError
from dpicl_research.amazon_reviews import MOST_ROWS

# Identifier on the hub and the arguments of load_dataset.
_HOMES: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "agnews": (("fancyzhx/ag_news",), {}),
    "trec": (("CogComp/trec",), {"revision": "refs/convert/parquet"}),
    "dbpedia": (("fancyzhx/dbpedia_14",), {}),
    "gsm8k": (("openai/gsm8k", "main"), {}),
    "sst2": (("stanfordnlp/sst2",), {}),
    "amazon": (("fancyzhx/amazon_polarity",), {}),
}
# Examples and queries. The test split of SST-2 has no labels.
_SPLITS = {
    "sst2": ["train", "validation"],
    "amazon": [f"train[:{MOST_ROWS}]", f"test[:{MOST_ROWS}]"],
}
_NAMES = {
    "agnews": ("World", "Sports", "Business", "Technology"),
    "trec": ("Abbreviation", "Entity", "Description", "Person", "Location", "Number"),
    "dbpedia": (
        *("Company", "School", "Artist", "Athlete", "Politician", "Transportation", "Building"),
        *("Nature", "Village", "Animal", "Plant", "Album", "Film", "Book"),
    ),
    "sst2": ("Negative", "Positive"),
    "amazon": ("Negative", "Positive"),
}
_TEXTS = {"dbpedia": ("content",), "sst2": ("sentence",), "amazon": ("title", "content")}


def hub_rows(
    name: str,
) -> tuple[Sequence[Mapping[str, object]], Sequence[Mapping[str, object]]]:
    """Training and test rows of a task.

    Raises:
        ConfigurationError: The task is not read from the hub, or the hub cannot be reached.
        MissingDependencyError: ``datasets`` is not installed.
    """
    if name not in _HOMES:
        raise ConfigurationError(
            f"{name} is not read from the hub: set DPICL_RAG_DATA to a folder with "
            f"{name}_train.jsonl.gz and {name}_test.jsonl.gz"
        )
    try:
        datasets: Any = importlib.import_module("datasets")
    except ImportError as error:
        raise MissingDependencyError(
            f"the task {name} needs its data: set DPICL_RAG_DATA to the folder that has it, or "
            "read it from the Hugging Face hub with: pip install datasets"
        ) from error
    where, options = _HOMES[name]
    try:
        splits = _SPLITS.get(name, ["train", "test"])
        pool, test = datasets.load_dataset(*where, split=splits, **options)
        return [_row(name, row) for row in pool], [_row(name, row) for row in test]
    except Exception as error:
        raise ConfigurationError(
            f"{name} cannot be read from the Hugging Face hub ({type(error).__name__}); check the "
            "connection, or set DPICL_RAG_DATA to a folder that has it"
        ) from error


def _row(name: str, row: Mapping[str, Any]) -> Mapping[str, object]:
    """A row with the columns of the data folder."""
    if name == "gsm8k":
        final = str(row["answer"]).rsplit("####", 1)[-1].strip().replace(",", "")
        return {"question": row["question"], "final": final}
    label = row["coarse_label"] if name == "trec" else row["label"]
    text = " ".join(row[column] for column in _TEXTS.get(name, ("text",)))
    return {"text": text, "label": _NAMES[name][int(label)]}
