"""A folder of benchmark data with a few made-up rows for every task, table and picture."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpicl_rag.tabular.schema import PACKAGED, Schema
from dpicl_research.tasks import LABELS
from tests.support.images import an_image

POOL, TEST = 210, 14
"""Rows that play the private ones, and queries: some of each label, whatever the task."""

_SPANS = ("comedy", "horror", "western", "drama")
_COLOURS = {"apple": (250, 0, 0), "plum": (0, 0, 250), "lime": (0, 250, 0)}
_PICTURES = 8  # of a class in each half


def make_tiny_benchmark(folder: Path) -> Path:
    """Write the files that DPICL_RAG_DATA is to hold; returns their folder."""
    folder.mkdir(parents=True)
    for name in ("agnews", "dbpedia", "trec", "gsm8k", "sst2", "mitg", "mitd"):
        pool = "pool" if name in ("agnews", "dbpedia") else "train"
        _write_lines(folder / f"{name}_{pool}.jsonl.gz", _texts(name, POOL))
        _write_lines(folder / f"{name}_test.jsonl.gz", _texts(name, TEST))
    _write_reviews(folder / "amazon_review_polarity_csv")
    for name in PACKAGED:
        for part, number in (("train", 24), ("test", 8)):
            write_table(folder / f"tab_{name}_{part}.csv.gz", Schema.read(name), number)
    _write_pictures(folder / "images_grocery.tar.gz")
    return folder


def write_table(file: Path, schema: Schema, number: int) -> None:
    """Write rows that a schema fits, with its labels in turn."""
    draw = random.Random(file.name)
    rows: list[Mapping[str, Any]] = []
    for at in range(number):
        places = [draw.randrange(column.size) for column in schema.columns]
        label = schema.label.values[at % len(schema.label.values)]
        rows.append({**schema.decode(places), schema.label.name: label})
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    content = stream.getvalue().encode()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)


def write_photos(folder: Path) -> None:
    """Write a folder of pictures for each class."""
    for name, colour in _COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number, content in enumerate(_shades(colour, 2 * _PICTURES)):
            (folder / name / f"{number}.png").write_bytes(content)


def _texts(name: str, number: int) -> Iterator[Mapping[str, object]]:
    labels: Sequence[str] = LABELS[name]
    for at in range(number):
        if name == "gsm8k":
            yield {"question": f"{at} and one?", "final": str(at % 10)}
        elif labels:
            yield {"text": f"no {at}", "label": labels[at % len(labels)]}
        else:
            span = _SPANS[at % len(_SPANS)]
            yield {"text": f"a {span} no {at}", "answer": span, "spans": 1}


def _write_lines(file: Path, rows: Iterator[Mapping[str, object]]) -> None:
    file.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def _write_reviews(folder: Path) -> None:
    """Amazon polarity as its archive unpacks."""
    folder.mkdir()
    for part, number in (("train", POOL), ("test", TEST)):
        rows = "".join(f'"{at % 2 + 1}","fine","no {at}"\n' for at in range(number))
        (folder / f"{part}.csv").write_text(rows)


def _write_pictures(file: Path) -> None:
    with tarfile.open(file, "w:gz") as archive:
        for name, colour in _COLOURS.items():
            for number, content in enumerate(_shades(colour, 2 * _PICTURES)):
                half = ("train", "test")[number % 2]
                member = tarfile.TarInfo(f"{half}/{name}/{number}.png")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def _shades(colour: tuple[int, int, int], number: int) -> Iterator[bytes]:
    for at in range(number):
        yield an_image(tuple(abs(part - at) for part in colour), size=(8, 8))
