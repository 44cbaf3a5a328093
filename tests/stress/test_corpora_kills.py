"""Corpora that are killed while they are written: what was acknowledged is there, and whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dpicl_rag.corpora import Corpus
from tests.support.fresh_python import run_python
from tests.unit.conftest import TextEmbedder, opened

pytestmark = pytest.mark.stress
KILLS = int(os.environ.get("DPICL_RAG_KILLS", "100"))


def questions_find(corpus: Corpus) -> list[tuple[str, str]]:
    """Units and texts of all that is found."""
    found = corpus.scan(np.ones(16))
    passages = found.passages(range(len(found.units)))
    return sorted((document.unit, document.text) for document, _ in passages)


WRITER = """
import sys
from dpicl_rag import Corpus, Document
from tests.unit.conftest import TextEmbedder
corpus = Corpus.open("mail", sys.argv[1], embedder=TextEmbedder())
print("go", flush=True)
for number in range(int(sys.argv[2]), 10**6):
    corpus.add([Document(f"text {number} {part}", f"unit {number}") for part in range(20)])
    print(f"added {number}", flush=True)
    if number % 3 == 2:
        corpus.delete_unit(f"unit {number - 2}")
        print(f"forgot {number - 2}", flush=True)
"""


@pytest.mark.guard
def test_kills_at_random_instants(tmp_path: Path) -> None:
    """What was acknowledged is there whole, and what was forgotten is not."""
    Corpus.create("mail", tmp_path, embedder=TextEmbedder()).close()
    generator = np.random.default_rng(0)
    there: set[int] = set()
    first = 0
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(generator.random() * 0.4)
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().splitlines()
        process.wait()
        process.stdout.close()
        last = first - 1
        for line in lines:
            what, number = line.split()
            if what == "added":
                there.add(int(number))
                last = int(number)
            else:
                there.discard(int(number))
        corpus = opened(tmp_path)
        units: dict[str, int] = {}
        for record in corpus.records():
            units[record.unit] = units.get(record.unit, 0) + 1
        assert set(units.values()) <= {20}
        found = {int(unit.split()[1]) for unit in units}
        # Of what was under way, all is there or nothing.
        assert there - {last - 2} <= found <= there | {last + 1}
        assert len(questions_find(corpus)) == sum(units.values())
        there, first = found, max(found, default=-1) + 1
        corpus.close()


JOINER = """
import sys
from dpicl_rag import Corpus, Document
from dpicl_rag.documents import Origin
from tests.unit.conftest import TextEmbedder

def mail(name, *keys):
    fields = {"message_id": f"<{name}@b>"}
    origin = Origin("thread or document", (f"id {name}", *keys))
    return Document(f"mail {name}", f"thread {name}", fields, origin)

corpus = Corpus.open("mail", sys.argv[1], embedder=TextEmbedder())
print("go", flush=True)
for number in range(int(sys.argv[2]), 10**6):
    corpus.add([mail(f"a{number}"), mail(f"b{number}")], no_ledger=True)
    print(f"came {number}", flush=True)
    corpus.add([mail(f"c{number}", f"id a{number}", f"id b{number}")], no_ledger=True)
    print(f"joined {number}", flush=True)
    corpus.forget_message(f"<c{number}@b>", no_ledger=True)
    print(f"parted {number}", flush=True)
"""

APART, JOINED = {"a", "b"}, {"abc"}
MAY_BE = {  # after what was said last, whatever was begun
    "came": (APART, {"ab"}, JOINED),  # units are joined before what joins them is embedded
    "joined": (JOINED, APART),
    "parted": (APART,),
}


@pytest.mark.heavy
def test_kills_while_units_join_and_part(tmp_path: Path) -> None:
    """A join and its undoing are there whole or not at all."""
    Corpus.create("mail", tmp_path, embedder=TextEmbedder()).close()
    generator = np.random.default_rng(1)
    first = 0
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", JOINER, str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(generator.random() * 0.4)
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().splitlines()
        process.wait()
        process.stdout.close()
        corpus = opened(tmp_path)
        parts: dict[str, str] = {}
        for unit, text in questions_find(corpus):
            parts[unit] = parts.get(unit, "") + text.split()[1][0]
        numbers = {record.unit: record.text.split()[1][1:] for record in corpus.records()}
        assert set(numbers) == set(parts)
        found: dict[int, set[str]] = {}
        for unit, names in parts.items():
            found.setdefault(int(numbers[unit]), set()).add(names)
        last = {int(number): what for what, number in map(str.split, lines)}
        for number, what in last.items():
            assert found[number] in MAY_BE[what], (number, what)
        first = max(found, default=-1) + 1
        corpus.close()


COMES_AND_GOES = """
import sys
import numpy as np
from dpicl_rag import Corpus, Document
from tests.unit.conftest import HashingEmbedder
generator = np.random.default_rng(int(sys.argv[2]))
corpus = Corpus.create("mail", sys.argv[1], embedder=HashingEmbedder())
there = set()
for unit in generator.integers(5, size=60).tolist():
    if unit in there:
        corpus.delete_unit(f"unit {unit}")
    else:
        corpus.add([Document(f"word{unit} " * number, f"unit {unit}") for number in range(1, 61)])
    there ^= {unit}
assert len(corpus.records()) == 60 * len(there)
"""


def test_units_alike_may_come_and_go(tmp_path: Path) -> None:
    for seed in range(5):
        run_python(COMES_AND_GOES, tmp_path / str(seed), seed)
