"""A file of vectors beside a store: it follows the store, forgets at once, and outlives kills."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromadb.api.models.Collection import Collection

from dpicl_rag.corpora import Corpus
from dpicl_rag.documents import Document
from dpicl_rag.retrieval import ThresholdRetriever, TopKRetriever, vector_file
from dpicl_rag.retrieval.torn import Note
from dpicl_rag.retrieval.vectors import on_grid
from tests.unit.conftest import (
    HashingEmbedder,
    Killed,
    TextEmbedder,
    blank,
    filled,
    opened,
    seen,
)

NOTES = [
    Document(f"{word} note number {number}", f"the unit of {word}")
    for word in ("amber", "birch", "cedar", "delta", "ember")
    for number in range(3)
]


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.name.endswith((".rows", ".vectors")))


def made(folder: Path) -> Corpus:
    return filled(folder, NOTES)


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in files(folder))


def traces(folder: Path, unit: str) -> list[str]:
    """What the files hold of a unit: its name, and which of its vectors."""
    held = bytes_of(folder)
    texts = [note.text for note in NOTES if note.unit == unit]
    vectors = on_grid(TextEmbedder().embed(texts))
    return [unit] * (unit.encode() in held) + [
        text for text, vector in zip(texts, vectors, strict=True) if vector.tobytes() in held
    ]


def test_the_files_are_the_owners_alone(tmp_path: Path) -> None:
    made(tmp_path)
    assert len(files(tmp_path)) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(tmp_path)} == {0o600}


def test_a_forgotten_unit_is_in_the_files_no_more(tmp_path: Path) -> None:
    corpus = made(tmp_path)
    assert len(traces(tmp_path, "the unit of cedar")) == 4
    before = corpus.scan(np.ones(16))
    corpus.delete_unit("the unit of cedar")
    assert traces(tmp_path, "the unit of cedar") == []
    assert len(traces(tmp_path, "the unit of birch")) == 4
    # Nor does a search that had begun find it.
    assert "the unit of cedar" in before.units
    found = before.passages(range(len(before.units)))
    assert {document.unit for document, _ in found} == {note.unit for note in NOTES} - {
        "the unit of cedar"
    }


def test_a_file_that_forgets_most_of_its_rows_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_file, "_SPARE", 0)
    corpus = made(tmp_path)
    for word in ("amber", "birch", "cedar"):
        corpus.delete_unit(f"the unit of {word}")
    assert len(files(tmp_path)) == 2
    assert files(tmp_path)[0].suffix == ".vectors" or files(tmp_path)[1].suffix == ".vectors"
    (vectors,) = [path for path in files(tmp_path) if path.suffix == ".vectors"]
    assert vectors.stat().st_size < len(NOTES) * 16 * 4
    expected = {note.text for note in NOTES if note.unit[-5:] in ("delta", "ember")}
    for source in (corpus, opened(tmp_path)):
        found = seen(source)
        assert found.keys() == expected
        for text, passage in found.items():
            assert np.array_equal(passage.vector, on_grid(TextEmbedder().embed([text]))[0])


def flip(path: Path) -> None:
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 4
    path.write_bytes(held)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-70])


@pytest.mark.parametrize("damage", [flip, cut, blank, Path.unlink])
@pytest.mark.parametrize("which", [".rows", ".vectors"])
def test_a_damaged_file_is_mended(
    tmp_path: Path, which: str, damage: Callable[[Path], None]
) -> None:
    corpus = made(tmp_path)
    expected = seen(corpus)
    corpus.close()
    (path,) = [path for path in files(tmp_path) if path.suffix == which]
    damage(path)
    for _ in range(2):
        found = seen(opened(tmp_path))
        assert list(found) == list(expected)
        for text, passage in found.items():
            assert np.array_equal(passage.vector, expected[text].vector)


def small(folder: Path) -> tuple[vector_file.VectorFile, vector_file.Mapped]:
    """Two files of three rows, by themselves."""
    file = vector_file.VectorFile(folder, "collection.unit")
    change = file.change(None)
    vectors = on_grid(np.random.default_rng(0).normal(size=(3, 5)))
    change.append([1, 2, 3], [4, 5, 6], ["ann", "bob", None], vectors, ["a", "b", "c"])
    return file, change.commit("[1, 2]")


def contents(rows: vector_file.Mapped) -> tuple[Any, ...]:
    arrays = (rows.number, rows.stamp, rows.unit, rows.check, rows.vectors)
    return (
        rows.version, rows.dimensions, rows.file, list(rows.names), list(rows.ids),
        *(array.tolist() for array in arrays),
    )  # fmt: skip


@pytest.mark.parametrize("bit", range(8))
def test_no_bit_of_the_rows_file_says_anything_else(tmp_path: Path, bit: int) -> None:
    """It is found damaged, or what is read is what was written: the bit says nothing."""
    file, written = small(tmp_path)
    (path,) = [path for path in files(tmp_path) if path.suffix == ".rows"]
    whole = path.read_bytes()
    for place in range(len(whole)):
        held = bytearray(whole)
        held[place] ^= 1 << bit
        path.write_bytes(held)
        found = file.load()
        assert found is None or contents(found) == contents(written)


def test_every_bit_of_a_vector_is_checked(tmp_path: Path) -> None:
    file, written = small(tmp_path)
    path = file.path_of(written.file)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        held = bytearray(whole)
        held[bit // 8] ^= 1 << bit % 8
        path.write_bytes(held)
        found = file.load()
        assert found is not None
        with pytest.raises(vector_file.DamagedError):
            found.require_all_sound()


def test_damage_that_no_checksum_showed_would_be_found_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: checksums that always agree."""
    corpus = made(tmp_path)
    expected = seen(corpus)
    corpus.close()
    (path,) = [path for path in files(tmp_path) if path.suffix == ".vectors"]
    blank(path)
    monkeypatch.setattr(vector_file.Mapped, "require_sound", lambda *_: None)
    found = seen(opened(tmp_path))
    assert any(not np.array_equal(found[text].vector, expected[text].vector) for text in found)


@contextmanager
def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End whatever the file does at a step: before it opens, makes durable or replaces a file."""
    steps = iter(range(step + 1))

    def guarded(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if next(steps, None) is None:
                raise Killed
            return original(*args, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(vector_file, "_private", guarded(vector_file._private))
        patch.setattr(vector_file.os, "fsync", guarded(os.fsync))
        patch.setattr(Path, "replace", guarded(Path.replace))
        yield


def work(corpus: Corpus, what: str) -> None:
    if what == "add":
        corpus.add([*NOTES, Document("a late note", "the unit of cedar"), "alone"])
    elif what == "forget":
        corpus.delete_unit("the unit of cedar")
    else:
        corpus.add(NOTES)


@pytest.mark.parametrize("what", ["make", "add", "forget"])
def test_a_kill_at_any_step_leaves_what_the_store_holds(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(40):
        folder = tmp_path / str(step)
        if what == "make":
            corpus = Corpus.create("mail", folder, embedder=TextEmbedder())
        else:
            corpus = made(folder)
        ended = False
        with killed_at(step, monkeypatch):
            try:
                work(corpus, what)
            except Killed:
                ended = True
        corpus.close()
        again = opened(folder)
        expected = {record.text for record in again.records()}
        assert seen(again).keys() == expected
        if what == "forget":
            assert "the unit of cedar" not in {passage.unit for passage in seen(again).values()}
            assert traces(folder, "the unit of cedar") == []
        work(again, what)
        assert seen(again).keys() == {record.text for record in again.records()}
        if not ended:
            break
    else:
        pytest.fail("there were more steps")
    assert step > 2


WRITER = """
import sys
from dpicl_rag import Corpus, Document
from tests.unit.conftest import HashingEmbedder
corpus = Corpus.open("mail", sys.argv[1], embedder=HashingEmbedder())
print("go", flush=True)
for number in range(10**6):
    corpus.add([Document(f"text {number} {part}", f"unit {number}") for part in range(20)])
    if number > 2:
        corpus.delete_unit(f"unit {number - 2}")
"""


@pytest.mark.stress
def test_kills_at_random_instants(tmp_path: Path) -> None:
    Corpus.create("mail", tmp_path, embedder=TextEmbedder()).close()
    generator = np.random.default_rng(0)
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(generator.random() * 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        torn = Note(tmp_path).torn()  # a question then finds what was there before the last write
        corpus = opened(tmp_path)
        found = seen(corpus).keys()
        records = {record.text for record in corpus.records()}
        assert torn or found == records
        assert seen(corpus).keys() == records
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


@pytest.mark.stress
def test_units_alike_may_come_and_go(tmp_path: Path) -> None:
    """Chroma's index takes in a vector among deleted ones, or ends the process where it cannot."""
    for seed in range(5):
        arguments = [sys.executable, "-c", COMES_AND_GOES, str(tmp_path / str(seed)), str(seed)]
        assert subprocess.run(arguments).returncode == 0


def test_filters_and_cuts_find_what_a_scan_of_everything_finds(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    words = ["a", "b", "c", "d", "e", "f"]
    documents = [
        Document(
            " ".join(generator.choice(words, size=4)) + f" {number % 3}",
            f"unit {generator.integers(12)}",
            {"owner": str(generator.choice(["ann", "bob"]))},
        )
        for number in range(60)
    ]
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())  # has ties
    corpus.add(documents)
    for where in (None, {"owner": "ann"}, {"owner": "nobody"}):
        whole = corpus._snapshot(where)
        question = corpus.embedder.embed(["a b c"], query=True)[0]
        scores = whole.scores(question)
        for threshold in sorted({*scores.tolist(), 0.3}):
            for limit in (None, 1, 2):
                retriever = ThresholdRetriever(
                    corpus, float(np.clip(threshold, -1, 1)), where=where, passages_per_unit=limit
                )
                expected = whole.scan(question, retriever.threshold)
                passages = expected.passages(range(len(expected.units)), limit)
                assert retriever.retrieve("a b c") == [passage.document for passage in passages]
        for top_k in (1, 3, 12, 50):
            near = whole.scan(question)
            best = np.sort(np.argsort(-near.scores, kind="stable")[:top_k])
            assert TopKRetriever(corpus, top_k, where=where).retrieve("a b c") == [
                passage.document for passage in near.passages(best.tolist())
            ]


def test_files_of_collections_that_are_gone_are_removed(tmp_path: Path) -> None:
    import chromadb

    made(tmp_path).close()
    with chromadb.PersistentClient(tmp_path) as client:
        client.delete_collection("mail")
    Corpus.create("other", tmp_path, embedder=TextEmbedder()).add(["text"])
    assert traces(tmp_path, "the unit of cedar") == []
    assert len(files(tmp_path)) == 2


def test_what_was_written_is_not_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = made(tmp_path)
    more = [Document(f"fir note number {n}", "the unit of fir") for n in range(3)]
    fewer = [Document("a longer note of cedar", "the unit of cedar")]
    monkeypatch.setattr("dpicl_rag.retrieval.local._vectors", None)
    corpus.add([*NOTES[:2], *more, *fewer])
    monkeypatch.undo()
    grown = corpus._file._loaded[1]
    with corpus._store.reading() as client:
        anew = corpus._file._renew(client.get_collection("mail"), anew=True)[1]

    def rows(held: vector_file.Mapped) -> dict[int, tuple[Any, ...]]:
        return {
            number: (held.stamp[at], held.names[held.unit[at]], held.vectors[at].tobytes())
            for at, number in enumerate(held.number.tolist())
            if number >= 0
        }

    assert rows(grown) == rows(anew)
    assert len(rows(anew)) == len(NOTES) + 4


@pytest.mark.parametrize("again", [False, True])
def test_what_another_program_writes_meanwhile_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    corpus = made(tmp_path)
    upsert = Collection.upsert
    other = np.full((1, 16), 0.25, dtype=np.float32)

    def disturbed(self: Collection, ids: list[str], **more: Any) -> None:
        upsert(self, ids, **more)
        theirs = ids[:1] if again else ["another"]
        fields = {key: value[:1] for key, value in more.items() if key != "embeddings"}
        upsert(self, theirs, embeddings=other, **fields)

    monkeypatch.setattr(Collection, "upsert", disturbed)
    corpus.add([Document("gale note", "the unit of gale"), Document("hail note", "the unit of h")])
    grown = corpus._file._loaded[1]
    theirs = on_grid(other)[0].tobytes()
    assert [row[:16].tobytes() for row in grown.vectors].count(theirs) == 1
    assert len(grown.live.nonzero()[0]) == len(NOTES) + (2 if again else 3)
