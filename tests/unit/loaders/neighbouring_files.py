"""Folders of files that are converted, and one file more: nothing but that file may differ."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

from dpicl_rag.loaders import LoadResult, load
from tests.support import made_files as made

WORDS = ["The pump is cleaned with vinegar.", "Ann: fever", "naïve words", "x"]


def files() -> list[tuple[str, bytes]]:
    """Files by their endings: good ones and hostile ones."""
    found = [(kind, made.office(kind, words)) for kind in made.PANDOC_KINDS for words in WORDS[:2]]
    found += [("pdf", made.pdf(words)) for words in WORDS]
    found += [("xlsx", made.xlsx([["who", "note"], ["Ann", words]])) for words in WORDS]
    found += [("msg", made.msg({"0037": "Plans", "1000": words})) for words in WORDS]
    found += [("txt", words.encode()) for words in WORDS]
    found += [("ics", f"BEGIN:VEVENT\nSUMMARY:{words}\nEND:VEVENT".encode()) for words in WORDS]
    docx = made.office("docx", WORDS[0])
    found += [
        ("pdf", made.pdf()),
        ("pdf", made.locked_pdf("words", "secret")),
        ("pdf", made.pdf("words")[:200]),
        ("docx", docx[: len(docx) // 2]),
        ("docx", made.docx_of("&x;", made.laughs())),
        ("docx", made.swollen(docx)),
        ("xlsx", made.xlsx([["who", "note"], ["Bo", "x"]])[:-50]),
        ("msg", made.msg({"1000": "words"})[:900]),
        ("txt", made.pdf("words")),
        ("txt", bytes(range(1, 32)) * 9),
        ("ics", b"BEGIN:VEVENT\nSUMMARY"),
        ("zip", made.nested_archive(3)),
        ("", made.pdf("words")),
        ("", b"\x89PNG\r\n\x1a\n"),
        ("md", b"{\\rtf1 words}"),
    ]
    return found


def differences(folder: Path, seed: int, those: list[tuple[str, bytes]]) -> list[str]:
    """What one file more changed that it should not have, in a folder made up from a number."""
    coins = random.Random(seed)
    folder.mkdir()
    for number in range(coins.choice([1, 2, 5])):
        _write(folder, f"{coins.choice('bcd')}{number}", coins.choice(those), coins)
    options = coins.choice([{}, {}, {"unit": "document"}, {"text_field": "note"}, {"unit": "who"}])
    before = load(folder, **options)  # type: ignore[arg-type]
    more = _write(folder, coins.choice(["a", "c9", "z"]), coins.choice(those), coins)
    after = load(folder, **options)  # type: ignore[arg-type]
    found = []
    one, other = _told(before), _told(after)
    if gone := (one - other).total():
        found.append(f"{gone} records went or changed when {Path(more).suffix or 'a file'} came")
    new = other - one
    if new.total() > 1:
        found.append(f"{new.total()} records came")
    if any(position.split(":")[0] not in (more, "") for position, _ in new):
        found.append("another file than the one more is told of")
    return found


def _write(folder: Path, stem: str, file: tuple[str, bytes], coins: random.Random) -> str:
    ending, content = file
    name = f"{stem}.{ending}" if ending else stem
    if ending and coins.random() < 0.2:
        name, content = f"{name}.gz", gzip.compress(content)
    (folder / name).write_bytes(content)
    return name


def _told(found: LoadResult) -> Counter[tuple[str, object]]:
    """Every document by its file and all that it has, and every skipped record."""
    told: Counter[tuple[str, object]] = Counter()
    for item in found.report.skipped:
        told[item.position, item.reason] += 1
    for one in found.documents:
        # A message and a row do not say which file they are from.
        told[one.metadata.get("file", ""), (one.unit, one.text, *sorted(one.metadata.items()))] += 1
    return told
