"""A run on disk: its settings, and one line of scores per seed and query.

A killed run goes on where it stopped: what was written is kept, and a line that was cut off is
dropped. The folder holds benchmark data and is no private store.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.run_files import alone_in, cut_tail, whole_lines, write_line, write_whole
from dpicl_rag.methods.layouts import ContentFree
from dpicl_rag.research.context_rows import Coins, Rows
from dpicl_rag.research.label_scores import Subset

Kind = Literal["accuracy", "membership", "images"]

_VERSION = 1
_DIGITS = 6  # decimals of a stored log-probability; far below what a prediction depends on


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that the scores of a run depend on; a folder holds scores of one of them.

    Attributes:
        task: Name of the task.
        data: Digest of its items.
        model: Fingerprint of the model.
        experts: Numbers of examples, ascending.
        seeds: Number of contexts.
        queries: Queries per seed.
        text_tokens: Texts are cut to this many tokens.
        layouts: Keys of the rows, each with a number of experts.
        kind: ``accuracy``: queries are test items. ``membership``: they are the examples of the
            context, and as many others from the pool. ``images``: they are pictures.
    """

    task: str
    data: str
    model: str
    experts: tuple[int, ...]
    seeds: int
    queries: int
    text_tokens: int
    layouts: tuple[str, ...]
    kind: Kind = "accuracy"


@dataclass(frozen=True, slots=True)
class Reporting:
    """Defaults of what ``report`` shows; scores do not depend on them.

    Attributes:
        methods: Names.
        epsilon: Privacy of one answer.
        delta: Privacy of one answer.
    """

    methods: tuple[str, ...]
    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class Record:
    """Scores of one query under one seed.

    Attributes:
        seed: Which context.
        query: Number of the query under that seed.
        labels: Its labels.
        right: Which of them is right.
        rows: Log-probabilities over the labels by subset of the context.
        content_free: The same with a content-free query.
    """

    seed: int
    query: int
    labels: tuple[str, ...]
    right: int
    rows: Mapping[Subset, Sequence[float]]
    content_free: Mapping[Subset, Sequence[float]] = field(default_factory=dict)

    def view(self, layout: Rows, experts: int) -> torch.Tensor:
        """Normalised label log-probabilities [rows, labels], float64, of a layout.

        Raises:
            KeyError: The run did not compute its rows.
        """
        rows = self.content_free if isinstance(layout, ContentFree) else self.rows
        subsets = Coins(self.seed, self.query).subsets(layout, experts)
        found = torch.tensor([rows[subset] for subset in subsets], dtype=torch.float64)
        return torch.log_softmax(found.reshape(len(subsets), len(self.labels)), dim=1)


@dataclass(frozen=True, slots=True)
class Run:
    """A finished or unfinished run, read back.

    Attributes:
        name: Name of its folder.
        settings: See ``Settings``.
        reporting: See ``Reporting``.
        records: By seed and query.
    """

    name: str
    settings: Settings
    reporting: Reporting
    records: tuple[Record, ...]

    @property
    def complete(self) -> bool:
        """Whether every query of every seed is there."""
        return len(self.records) == self.settings.seeds * self.settings.queries


def load_run(folder: Path) -> Run:
    """Read a run.

    Raises:
        ConfigurationError: The folder holds no run, or a damaged one.
    """
    settings, reporting = _read_settings(folder)
    records, _ = _read_records(folder / "scores.jsonl")
    ordered = sorted(records, key=lambda r: (r.seed, r.query))
    return Run(folder.resolve().name, settings, reporting, tuple(ordered))


class Scores:
    """The scores of a run that is being computed. Made by ``open_scores``."""

    def __init__(self, file: Path, records: Sequence[Record]) -> None:
        self._file = file
        self.done = {(record.seed, record.query) for record in records}

    def append(self, record: Record) -> None:
        """Write one record; it is on disk when this returns."""
        write_line(self._file, _to_json(record))
        self.done.add((record.seed, record.query))


@contextmanager
def open_scores(folder: Path, settings: Settings, reporting: Reporting) -> Iterator[Scores]:
    """Begin a run in a folder, or go on with the one that is there.

    Raises:
        ConfigurationError: The folder holds a run with other settings, a damaged one, or one that
            another process is computing.
    """
    with alone_in(folder, "another evaluation is running there"):
        yield Scores(folder / "scores.jsonl", _resume(folder, settings, reporting))


def _resume(folder: Path, settings: Settings, reporting: Reporting) -> list[Record]:
    file = folder / "scores.jsonl"
    if (folder / "run.json").exists():
        before, _ = _read_settings(folder)
        differing = [k for k, v in asdict(before).items() if v != asdict(settings)[k]]
        if differing:
            raise ConfigurationError(
                f"{folder}: holds a run with other settings ({', '.join(differing)}); give "
                "another --out, or the same settings to go on with it"
            )
    elif file.exists():
        raise ConfigurationError(
            f"{folder}: holds scores without their run.json; give another --out"
        )
    text = {"version": _VERSION, "settings": asdict(settings), "reporting": asdict(reporting)}
    write_whole(folder / "run.json", (json.dumps(text, indent=2) + "\n").encode())
    records, whole = _read_records(file)
    cut_tail(file, whole)
    return records


def _read_settings(folder: Path) -> tuple[Settings, Reporting]:
    try:
        found = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"{folder}: holds no run of `dpicl-rag evaluate run`") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{folder}: its run.json cannot be read") from error
    try:
        if found["version"] != _VERSION:
            raise ConfigurationError(f"{folder}: the run is of another version of this library")
        return Settings(**_tuples(found["settings"])), Reporting(**_tuples(found["reporting"]))
    except (KeyError, TypeError) as error:
        raise ConfigurationError(f"{folder}: its run.json cannot be read") from error


def _read_records(file: Path) -> tuple[list[Record], int]:
    """The records, and how many bytes of the file they take up."""
    records: list[Record] = []
    lines, whole = whole_lines(file)
    for number, line in enumerate(lines, start=1):
        try:
            records.append(_from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{file}, line {number}: damaged; give another --out"
            ) from error
    return records, whole


def _to_json(record: Record) -> dict[str, Any]:
    return {
        "seed": record.seed,
        "query": record.query,
        "labels": record.labels,
        "right": record.right,
        "rows": _rows_to_json(record.rows),
        "content_free": _rows_to_json(record.content_free),
    }


def _from_json(line: Mapping[str, Any]) -> Record:
    return Record(
        line["seed"],
        line["query"],
        tuple(line["labels"]),
        line["right"],
        _rows_from_json(line["rows"]),
        _rows_from_json(line["content_free"]),
    )


def _rows_to_json(rows: Mapping[Subset, Sequence[float]]) -> dict[str, list[float]]:
    ordered = sorted(rows.items())
    return {",".join(map(str, s)): [round(v, _DIGITS) for v in row] for s, row in ordered}


def _rows_from_json(rows: Mapping[str, Sequence[float]]) -> dict[Subset, Sequence[float]]:
    return {tuple(map(int, name.split(","))) if name else (): row for name, row in rows.items()}


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
