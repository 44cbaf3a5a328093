"""Private tables, pools and folders of pictures, each beside itself with one unit more.

What is read of all others must be the same, and so must errors, warnings and log lines. Newcomers
are hostile: bytes of any encoding, quotes that nobody closes, names that look like others' names.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import os
import tempfile
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st

from dpicl_rag.cli.synthesise import LabelledTable
from dpicl_rag.cli.tabular_commands import _read as rows_of
from dpicl_rag.documents import group_by_unit
from dpicl_rag.errors import DPICLError
from dpicl_rag.loaders import load_images
from dpicl_rag.synthesis.pools import LabelledDocument, pools
from dpicl_rag.tabular.noisy_tables import release_tables
from dpicl_rag.tabular.schema import Category, Label, Number, Schema
from dpicl_rag.vision.base import read_picture, read_rows
from dpicl_research.vision_prototype import VisionPrototype
from tests.support.images import ColourNetwork, an_image, unreadable
from tests.support.private_rows import price

SCHEMA = Schema(
    columns=(Number("age", 0, 100, (50,)), Category("smokes", ("no", "yes"))),
    label=Label("ill", ("No", "Yes")),
)
NAMES = ("age", "smokes", "ill", "text", "id", "owner")
LABELS = ("No", "Yes")


# What two neighbours are told apart by.


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def heard(run: Callable[[], Any]) -> tuple[Any, tuple[Any, ...]]:
    """What a call returns, and what else it lets one know: an error, warnings, log lines."""
    handler, root, found, error = _Heard(), logging.getLogger(), None, ""
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = run()
            except DPICLError as refused:
                error = f"{type(refused).__name__}: {refused}"
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    return found, (error, [str(one.message) for one in caught], handler.lines)


def assert_silent(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    """Nothing but what is returned may differ, and no newcomer is an error."""
    assert one == other
    assert one[0] == ""


# Tables.

# No cell of theirs begins as what would close a quote that a newcomer opened: see
# `dpicl_rag.loaders.delimited` of bytes with two meanings.
_WORDS = ("no", "yes", "No", "Yes", "71", "9", "", 'tea, or "coffee"', "two\nlines", "müller", "x")
_CELLS = st.sampled_from(_WORDS)
_HOSTILE = st.lists(
    st.sampled_from(
        [b'"', b",", b"'", b"\r", b"\x00", b"\xe4", b"\xf6", b"\xff\xfe", b"{", b"}", b"[", b":",
         b"\\u", b"\\ud800", b"null", b"1e999", b"9" * 5000, b"[" * 2000, b"Yes", b"no", b"71",
         b'""', b'"age"', b";", b"\t", b"\x1f\x8b", b"\xef\xbb\xbf", b" "]
    ) | st.binary(max_size=4).filter(lambda raw: b"\n" not in raw),
    max_size=12,
).map(b"".join)  # fmt: skip
# One damaged line each: a quote that nobody closes, too many fields, other delimiters, a long cell.
_DAMAGED = st.sampled_from(
    [b'"', b'x,"y', b'1,no,"No', b'a "b" c,"', b"," * 9, b"1;2;3;4;5;6;7", b"x" * 70_000, b"{",
     b"[", b'{"ill": "No", "text": "a', b'{"ill": "No"}}', b'{"text": 5, "ill": ["No"]}', b'"No"',
     b"NaN"]
)  # fmt: skip
# What a file begins with is the file's: a mark of its encoding, or of an archive.
_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\x1f\x8b")


@dataclass(frozen=True)
class TableCase:
    """A private table and a newcomer, as lines of bytes."""

    kind: str
    lines: tuple[bytes, ...]
    newcomer: bytes
    place: int
    unit: str
    packed: bool

    def content(self, *, whole: bool) -> bytes:
        lines = list(self.lines)
        if whole:
            lines.insert(self.place % (len(lines) + 1), self.newcomer)
        header = [_as_csv(NAMES)] if self.kind == "csv" else []
        made = b"".join(line + b"\n" for line in (*header, *lines))
        return gzip.compress(made, mtime=0) if self.packed else made


def _as_csv(cells: Sequence[str], encoding: str = "utf-8") -> bytes:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(cells)
    return stream.getvalue()[:-1].encode(encoding)


def _as_json(cells: Sequence[str]) -> bytes:
    return json.dumps(
        {name: cell for name, cell in zip(NAMES, cells, strict=True) if cell}
    ).encode()


def tables() -> st.SearchStrategy[TableCase]:
    """Any table, and a row more that may be anything."""
    rows = st.tuples(*[_CELLS] * len(NAMES))
    encodings = st.sampled_from(["utf-8", "latin-1"])

    def of_kind(kind: str) -> st.SearchStrategy[TableCase]:
        line = st.builds(_as_csv, rows, encodings) if kind == "csv" else rows.map(_as_json)
        newcomer = (line | _DAMAGED | _HOSTILE).filter(lambda raw: not raw.startswith(_MARKS))
        return st.builds(
            TableCase,
            st.just(kind),
            st.lists(line, max_size=6).map(tuple),
            newcomer,
            st.integers(0, 6),
            st.sampled_from(["document", "owner"]),
            st.booleans(),
        )

    return st.sampled_from(["csv", "jsonl"]).flatmap(of_kind)


def _written(case: TableCase, read: Callable[[Path], Any]) -> list[tuple[Any, tuple[Any, ...]]]:
    """What is read of a table, and of it with the newcomer; both lie at the same place."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"people.{case.kind}{'.gz' * case.packed}"
        for whole in (False, True):
            path.write_bytes(case.content(whole=whole))
            found.append(heard(lambda: read(path)))
    return found


def check_table(case: TableCase) -> None:
    """The rows of a release: the newcomer's own differ, and its numbers by what is charged."""
    (without, quiet), (beside, told) = _written(
        case, lambda path: rows_of(path, SCHEMA, case.unit, quiet=True)
    )
    assert_silent(quiet, told)
    before, after = (_by_unit(*read) for read in (without, beside))
    assert_one_unit_more(before, after)
    others = {unit: rows for unit, rows in before.items() if after[unit] == rows}
    for whole in (before, after):  # a unit that was there with less goes, and comes with more
        assert price(_released, _firsts(others), _firsts(whole)) <= 1.0 + 1e-12


def _firsts(units: dict[str, list[Any]]) -> list[Any]:
    return [rows[0] for rows in units.values()]


def check_labelled(case: TableCase) -> None:
    """The pools of labelled examples."""
    (without, quiet), (beside, told) = _written(
        case, lambda path: LabelledTable(path, "text", "ill", case.unit).read(quiet=True)
    )
    assert_silent(quiet, told)
    assert_one_unit_more(*(_in_pools(pools(examples, LABELS, 1)) for examples in (without, beside)))


def _by_unit(rows: Sequence[Any], units: Sequence[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for unit, row in zip(units, rows, strict=True):
        found.setdefault(unit, []).append(dict(row))
    return found


def _released(rows: Sequence[Any]) -> list[int]:
    released = release_tables(rows, SCHEMA, 1.0)
    return [int(n) for table in released.counts for line in table for n in line]


def assert_one_unit_more(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Two neighbours differ in one unit, which may have been there with less."""
    assert before.keys() <= after.keys()
    differing = [unit for unit in after if before.get(unit) != after[unit]]
    assert len(differing) <= 1


# Pools.


def records() -> st.SearchStrategy[LabelledDocument]:
    """A record of any kind that a caller may hand over."""
    odd = st.sampled_from([None, 7, 1.5, b"x", ["No"], {"No"}, {}, float("nan"), True, ()])
    text = st.sampled_from(["one", "two", " one ", "", "\ud800", "a\nb"]) | odd
    return st.builds(LabelledDocument, text, st.sampled_from([*LABELS, "no"]) | odd, _owners(odd))


def _owners(odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(["ann", "bob", "ann ", "5", None]) | odd


@dataclass(frozen=True)
class PoolCase:
    """Labelled records, and those of one unit more."""

    records: tuple[LabelledDocument, ...]
    newcomers: tuple[LabelledDocument, ...]
    places: tuple[int, ...]
    labels_per_unit: int


def pool_cases() -> st.SearchStrategy[PoolCase]:
    """Any records, and one unit more that says any things under any labels."""
    named = st.lists(records().map(lambda r: LabelledDocument(r.text, r.label, "zoe")), max_size=4)
    nameless = records().map(lambda r: [LabelledDocument(r.text, r.label, None)])
    odd = records().map(lambda record: [record])
    return st.builds(
        PoolCase,
        st.lists(records(), max_size=8).map(tuple),
        (named | nameless | odd).map(tuple),
        st.lists(st.integers(0, 9), min_size=4, max_size=4).map(tuple),
        st.integers(1, 3),
    )


def check_pools(case: PoolCase) -> None:
    """Pools of the records, and of the records with the newcomer's among them."""
    beside = list(case.records)
    for record, place in zip(case.newcomers, case.places, strict=False):
        beside.insert(place % (len(beside) + 1), record)
    (before, quiet), (after, told) = (
        heard(lambda own=own: pools(own, LABELS, case.labels_per_unit))
        for own in (case.records, beside)
    )
    assert_silent(quiet, told)
    # Records without a name of their own are known by their text, so equal ones trade names.
    nameless = any(record.unit is None for record in case.newcomers)
    if not nameless:
        assert_one_unit_more(_in_pools(before), _in_pools(after))
        return
    counted = [Counter(texts for own in (pool[label],) for texts in own.values())
               for pool in (before, after) for label in LABELS]  # fmt: skip
    more = [after - before for before, after in zip(counted[:2], counted[2:], strict=True)]
    assert not any(before - after for before, after in zip(counted[:2], counted[2:], strict=True))
    assert sum(map(Counter.total, more)) <= 1


def _in_pools(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What each unit has, by label."""
    units = {unit for pool in found.values() for unit in pool}
    return {u: [(label, pool[u]) for label, pool in found.items() if u in pool] for u in units}


# Pictures.

_FILES = ("1.png", "2.JPG", "notes.txt", "ü.png", "u\u0308.png", "a b.png", "a\u00a0b.png")
_FOLDERS = (b"rex", b"ann", b"m\xfcller", b"m\xf6ller", "josé".encode(), "jose\u0301".encode())
_CONTENTS = [an_image((255, 0, 0)), an_image((0, 255, 255), format="JPEG"), *unreadable().values()]
_QUERY = an_image((250, 10, 10))


@dataclass(frozen=True)
class PictureCase:
    """Files by path, as bytes, and those of one unit more."""

    files: dict[bytes, bytes]
    newcomers: dict[bytes, bytes]


def picture_cases() -> st.SearchStrategy[PictureCase]:
    """Any folder of labels, and one unit more: a picture, or a folder under some labels."""
    label, content = st.sampled_from([b"dax", b"blicket", b"other"]), st.sampled_from(_CONTENTS)
    name = st.sampled_from(_FILES).map(os.fsencode)
    unit = st.sampled_from(_FOLDERS)
    loose = st.builds(lambda *parts: b"/".join(parts), label, name)
    owned = st.builds(lambda *parts: b"/".join(parts), label, unit, name)
    files = st.dictionaries(loose | owned | name, content, max_size=6)

    def of(folder: bytes) -> st.SearchStrategy[dict[bytes, bytes]]:
        path = st.builds(lambda *parts: b"/".join(parts), label, st.just(folder), name)
        deeper = path.map(lambda path: path.replace(b"/", b"/" + folder + b"/a/", 1))
        return st.dictionaries(path | deeper, content, min_size=1, max_size=3)

    newcomers = st.tuples(loose, content).map(lambda pair: dict([pair])) | unit.flatmap(of)
    return st.builds(PictureCase, files, newcomers)


def check_pictures(case: PictureCase) -> None:
    """The documents of a folder, and what the experts say: each unit by itself, bit for bit."""
    query = read_picture(_QUERY, ColourNetwork.side)
    assert query is not None

    def seen(root: Path) -> dict[str, Any]:
        documents = load_images(root).documents
        units = {unit: (own, _rows(own, query)) for unit, own in group_by_unit(documents).items()}
        _, *experts = _rows(documents, query)
        assert experts == [row for _, (_, *rows) in units.values() for row in rows]
        return units

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for files in (case.files, {**case.newcomers, **case.files}):
            for path, content in files.items():
                file = os.path.join(os.fsencode(folder), path)
                os.makedirs(os.path.dirname(file), exist_ok=True)
                with open(file, "wb") as stream:
                    stream.write(content)
            found.append(heard(lambda: seen(Path(folder))))
            units = [{os.fsencode(own.image) for own in unit} for unit, _ in found[-1][0].values()]
            assert sorted(map(sorted, units)) == sorted(_persons(os.fsencode(folder), files))
    (before, quiet), (after, told) = found
    assert_silent(quiet, told)
    assert_one_unit_more(before, after)


def _persons(folder: bytes, files: dict[bytes, bytes]) -> list[list[bytes]]:
    """The pictures of each person: names are one person's by what they say, not by what is lost."""
    own: dict[str, list[bytes]] = {}
    for path in files:
        parts = os.fsdecode(path).split("/")
        if len(parts) > 1 and parts[-1] != "notes.txt":
            name = "/".join(parts) if len(parts) == 2 else parts[1]
            form = " ".join(unicodedata.normalize("NFC", name).split())
            own.setdefault(form, []).append(os.path.join(folder, path))
    return [sorted(paths) for paths in own.values()]


def _rows(documents: Sequence[Any], query: Any) -> list[list[float]]:
    """What the experts say of the query: one row for each unit."""
    experts = group_by_unit(documents).values()
    step = read_rows(VisionPrototype(ColourNetwork()), experts, query, ("dax", "blicket"))
    assert not step.experts.isnan().any()
    rows: list[list[float]] = torch.as_tensor(step.rows).tolist()
    return rows
