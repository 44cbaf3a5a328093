"""The tasks of the papers: texts, labels and templates.

Everything here is public benchmark data. A task's pool plays the private examples, and its test
items are the public queries.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.public_rows import is_task_file, read_rows
from dpicl_research.amazon_reviews import amazon_rows

DATA_VARIABLE = "DPICL_RAG_DATA"
"""Environment variable with the folder of the benchmark data."""

_HELD_OUT = 5  # of a file without test items, every fifth row is one

T = TypeVar("T")
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Item:
    """One text with its answer.

    Attributes:
        text: What is classified.
        answer: The right label. For extraction, the first word of the span.
        shown: What an example in a prompt gives as the answer.
        candidates: The labels of this item; empty where the task has one set for all.
    """

    text: str
    answer: str
    shown: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    r"""Template of a prompt: ``header``, examples, query.

    An example is ``{opening} {text}\n{closing} {answer}\n\n``, and a query stops after
    ``{closing}``, as in Calibrate Before Use (Zhao et al. 2021), which the papers follow.
    """

    header: str
    opening: str
    closing: str


@dataclass(frozen=True, slots=True)
class Task:
    """A task.

    Attributes:
        name: What reports call it.
        template: Its prompts.
        labels: All labels; empty for extraction, where each query brings its own candidates.
        pool: Where examples are drawn from.
        test: Where queries are drawn from.
    """

    name: str
    template: Template
    labels: tuple[str, ...]
    pool: tuple[Item, ...]
    test: tuple[Item, ...]


_TEMPLATES = {
    "agnews": Template(
        "Classify the news articles into the categories of World, Sports, Business, and "
        "Technology.\n\n",
        "Article:",
        "Answer:",
    ),
    "trec": Template(
        "Classify the questions based on whether their answer type is a Number, Location, "
        "Person, Description, Entity, or Abbreviation.\n\n",
        "Question:",
        "Answer Type:",
    ),
    "dbpedia": Template(
        "Classify the documents based on whether they are about a Company, School, Artist, "
        "Athlete, Politician, Transportation, Building, Nature, Village, Animal, Plant, Album, "
        "Film, or Book.\n\n",
        "Article:",
        "Answer:",
    ),
    "gsm8k": Template(
        "Answer the grade school math problem with a number.\n\n", "Question:", "Answer:"
    ),
    "sst2": Template("", "Review:", "Sentiment:"),
    "amazon": Template("", "Review:", "Sentiment:"),
    "mitg": Template("", "Sentence:", "Genre:"),
    "mitd": Template("", "Sentence:", "Director:"),
}
LABELS: Mapping[str, tuple[str, ...]] = {
    "agnews": ("World", "Sports", "Business", "Technology"),
    "trec": ("Number", "Location", "Person", "Description", "Entity", "Abbreviation"),
    "dbpedia": (
        *("Company", "School", "Artist", "Athlete", "Politician", "Transportation", "Building"),
        *("Nature", "Village", "Animal", "Plant", "Album", "Film", "Book"),
    ),
    "gsm8k": tuple("0123456789"),
    "sst2": ("Negative", "Positive"),
    "amazon": ("Negative", "Positive"),
    "mitg": (),
    "mitd": (),
}
"""By task; none where each query brings its own candidates."""

# The data has DBpedia's class names, the papers' template shorter ones.
_DBPEDIA_NAMES = {
    "EducationalInstitution": "School",
    "OfficeHolder": "Politician",
    "MeanOfTransportation": "Transportation",
    "NaturalPlace": "Nature",
    "WrittenWork": "Book",
}

TASK_NAMES = tuple(_TEMPLATES)
"""Tasks known by name: AG News, TREC, DBPedia, GSM8K (first digit), SST-2, Amazon polarity, MIT
Movies genre, director."""


def load_task(name: str, **options: str | Path | Sequence[str] | None) -> Task:
    """A known task, or one from a file.

    Args:
        name: One of ``TASK_NAMES``, or the path of a CSV or JSON Lines file.
        **options: For a file, the arguments of ``load_task_file``.

    Raises:
        ConfigurationError: The name is unknown, or the data cannot be used.
        MissingDependencyError: There is no data folder, and ``datasets`` is not installed.
    """
    if is_task_file(name):
        return load_task_file(Path(name), **options)  # type: ignore[arg-type]
    if name not in _TEMPLATES:
        raise ConfigurationError(
            f"unknown task {name!r}: give one of {', '.join(TASK_NAMES)}, or a .csv or .jsonl file"
        )
    given = [option for option, value in options.items() if value is not None]
    if given:
        raise ConfigurationError(
            f"{', '.join(given)}: only for a task file; {name} brings its own columns and labels"
        )
    pool, test = _known_rows(name)
    read = _READERS.get(name, _labelled)
    return _checked(
        Task(
            name,
            _TEMPLATES[name],
            LABELS[name],
            tuple(_present(map(read, pool))),
            tuple(_present(map(read, test))),
        )
    )


def load_task_file(
    path: Path,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    labels: Sequence[str] | None = None,
    test_file: Path | None = None,
) -> Task:
    """A task from a file with a text and a label in every row.

    Args:
        path: CSV or JSON Lines, plain or gzipped. Examples are drawn from it.
        text_column: ``text`` where it is None.
        label_column: ``label`` where it is None.
        labels: All labels, in order; those of the file, sorted, where it is None.
        test_file: The queries, in the same columns. Without it a fifth of the rows, drawn with a
            fixed seed, is held out for them.

    Raises:
        ConfigurationError: A label of the list is empty; or the file cannot be read, lacks a column
            or a value, has a label that is not among ``labels``, or lacks examples of one of them.
    """
    if labels is not None and not all(label.strip() for label in labels):
        raise ConfigurationError(f"{path}: a label in the list is empty; give names, such as A,B")
    columns = (text_column or "text", label_column or "label")
    pool = [_from_columns(path, n, row, *columns) for n, row in enumerate(read_rows(path), 1)]
    if test_file is not None:
        test = [
            _from_columns(test_file, n, row, *columns)
            for n, row in enumerate(read_rows(test_file), 1)
        ]
    else:
        random.Random(0).shuffle(pool)  # noqa: S311
        test, pool = pool[::_HELD_OUT], [i for n, i in enumerate(pool) if n % _HELD_OUT]
    names = tuple(labels) if labels else tuple(sorted({i.answer for i in (*pool, *test)}))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigurationError(f"{path}: a task needs at least two distinct labels")
    listed = f"{', '.join(names[:-1])} or {names[-1]}"
    template = Template(f"Classify each text as {listed}.\n\n", "Text:", "Label:")
    return _checked(Task(path.name, template, names, tuple(pool), tuple(test)))


def _checked(task: Task) -> Task:
    """The task, if its labels and its items fit together."""
    if not task.pool or not task.test:
        raise ConfigurationError(f"{task.name}: there are no examples, or no queries")
    if not task.labels:
        return task
    known = set(task.labels)
    for item in (*task.pool, *task.test):
        if item.answer not in known:
            raise ConfigurationError(
                f"{task.name}: unknown label {item.answer!r}; the labels are "
                f"{', '.join(task.labels)}"
            )
    counts = Counter(item.answer for item in task.pool)
    for label in task.labels:
        if not counts[label]:
            raise ConfigurationError(
                f"{task.name}: the class {label!r} is empty: no example has this label"
            )
    return task


def _from_columns(path: Path, number: int, row: Row, text: str, label: str) -> Item:
    for column in (text, label):
        if column not in row:
            raise ConfigurationError(
                f"{path}, row {number}: there is no column {column!r}; there are "
                f"{', '.join(map(str, row))}"
            )
        if row[column] is None or not str(row[column]).strip():
            raise ConfigurationError(f"{path}, row {number}: the column {column!r} is empty")
    answer = str(row[label]).strip()
    return Item(_flat(row[text]), answer, answer)


def _labelled(row: Row) -> Item:
    label = str(row["label"])
    name = _DBPEDIA_NAMES.get(label, label)
    return Item(_flat(row["text"]), name, name)


def _first_digit(row: Row) -> Item:
    digit = str(row["final"]).lstrip("-")[:1]
    return Item(_flat(row["question"]), digit, digit)


def _span(row: Row) -> Item | None:
    """Extraction as a choice: which of the query's words does the span begin with?

    The papers compare the first token that is generated with the first of the span. The words of
    the query are public, so they may serve as the labels.
    """
    words = tuple(dict.fromkeys(str(row["text"]).split()))
    span = str(row["answer"])
    first = span.split()[:1]
    if row.get("spans") != 1 or not first or first[0] not in words or len(words) < 2:
        return None
    return Item(_flat(row["text"]), first[0], span, words)


_READERS: Mapping[str, Callable[[Row], Item | None]] = {
    "gsm8k": _first_digit,
    "mitg": _span,
    "mitd": _span,
}


def _known_rows(name: str) -> tuple[Sequence[Row], Sequence[Row]]:
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        from dpicl_research.task_downloads import hub_rows

        return hub_rows(name)
    if name == "amazon":
        return amazon_rows(Path(folder))
    pool = "pool" if name in {"agnews", "dbpedia"} else "train"
    return (
        read_rows(Path(folder) / f"{name}_{pool}.jsonl.gz"),
        read_rows(Path(folder) / f"{name}_test.jsonl.gz"),
    )


def _flat(text: object) -> str:
    """One line: a template ends an example with an empty one."""
    return " ".join(str(text).split())


def _present(items: Iterable[T | None]) -> Iterable[T]:
    return (item for item in items if item is not None)
