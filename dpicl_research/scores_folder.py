"""A run of `evaluate run` on disk: what its scores depend on, and a line per seed and query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.methods.base import ContentFree
from dpicl_research.context_rows import Coins, Rows
from dpicl_research.label_scores import Subset
from dpicl_research.run_folder import Results, going_on, read_lines, read_settings

Kind = Literal["accuracy", "membership", "images"]

_VERSION = 1
_HEAD, _SCORES = "run.json", "scores.jsonl"
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
        epsilon: Privacy of all answers together.
        delta: Privacy of all answers together.
        answers: How many share it.
        exemplars: Examples of an expert; None where each method has its own number.
        rates: With which examples are sampled, ascending; none where each method has its own.
    """

    methods: tuple[str, ...]
    epsilon: float
    delta: float
    answers: int = 1
    exemplars: int | None = None
    rates: tuple[float, ...] = ()


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
    head = read_settings(folder, _HEAD)
    try:
        if head["version"] != _VERSION:
            raise ConfigurationError(f"{folder}: the run is of another version of this library")
        settings = Settings(**_tuples(head["settings"]))
        reporting = Reporting(**_tuples(head["reporting"]))
    except (KeyError, TypeError) as error:
        raise ConfigurationError(f"{folder}: its run.json cannot be read") from error
    records = read_lines(folder / _SCORES, _from_json)
    ordered = sorted(records, key=lambda r: (r.seed, r.query))
    return Run(folder.resolve().name, settings, reporting, tuple(ordered))


def keep_scores(
    folder: Path,
    settings: Settings,
    reporting: Reporting,
    scored: Callable[[int, int], Record],
    on_progress: Progress | None,
) -> None:
    """Score what a folder does not have yet: begin a run there, or go on with the one it has.

    Args:
        folder: See `going_on`, which says too what is refused.
        settings: What scores depend on.
        reporting: Kept beside them.
        scored: Gives the record of a seed and a query.
        on_progress: Told how many queries are done.
    """
    head = {"version": _VERSION, "settings": asdict(settings), "reporting": asdict(reporting)}
    places = [(n, query) for n in range(settings.seeds) for query in range(settings.queries)]
    with going_on(folder, head, free="reporting", file=_HEAD):
        results = Results(folder / _SCORES, "seed", "query")
        for place in results.missing(places, on_progress):
            record = scored(*place)
            found = {
                "labels": record.labels,
                "right": record.right,
                "rows": _rows_to_json(record.rows),
                "content_free": _rows_to_json(record.content_free),
            }
            results.add(place, found)


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
