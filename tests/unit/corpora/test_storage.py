"""The two files of a corpus: they forget at once, outlive kills, and say what was written."""

import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.storage import Storage
from dpicl_rag.documents import Document
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval import ThresholdRetriever, TopKRetriever, vector_rows
from dpicl_rag.retrieval.vector_rows import VectorRows
from dpicl_rag.retrieval.vectors import on_grid
from tests.support.snapshot import Snapshot
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
    Document(f"{word} note number {number}", f"the unit of {word}", {"number": str(number)})
    for word in ("amber", "birch", "cedar", "delta", "ember")
    for number in range(3)
]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def made(folder: Path) -> Corpus:
    return filled(folder, NOTES)


def traces(folder: Path, unit: str) -> list[str]:
    """What the files hold of a unit's texts and vectors; its name they know when it comes back."""
    held = b"".join(path.read_bytes() for path in files(folder))
    texts = [note.text for note in NOTES if note.unit == unit]
    vectors = on_grid(TextEmbedder().embed(texts))
    return [
        *(text for text in texts if text.encode() in held),
        *(t for t, vector in zip(texts, vectors, strict=True) if vector.tobytes() in held),
    ]


def test_the_files_are_the_owners_alone(tmp_path: Path) -> None:
    corpus = made(tmp_path / "corpora")
    assert stat.S_IMODE((tmp_path / "corpora").stat().st_mode) == 0o700
    there = files(tmp_path / "corpora")
    assert {path.suffix for path in there} >= {".corpus", ".vectors"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in there} == {0o600}
    corpus.close()


def test_a_forgotten_unit_is_in_the_files_no_more(tmp_path: Path) -> None:
    corpus = made(tmp_path)
    assert len(traces(tmp_path, "the unit of cedar")) == 6
    before = corpus.scan(np.ones(16))
    corpus.delete_unit("the unit of cedar")
    assert traces(tmp_path, "the unit of cedar") == []
    assert len(traces(tmp_path, "the unit of birch")) == 6
    # Nor does a search that had begun find it.
    assert "the unit of cedar" in before.units
    found = before.passages(range(len(before.units)))
    assert {document.unit for document, _ in found} == {note.unit for note in NOTES} - {
        "the unit of cedar"
    }


def test_rows_that_are_free_are_taken_again(tmp_path: Path) -> None:
    corpus = made(tmp_path)
    size = (tmp_path / "mail.vectors").stat().st_size
    for _ in range(3):
        corpus.delete_unit("the unit of cedar")
        corpus.delete_unit("the unit of amber")
        corpus.add(NOTES)
        assert (tmp_path / "mail.vectors").stat().st_size == size
        for source in (corpus, opened(tmp_path)):
            found = seen(source)
            assert found.keys() == {note.text for note in NOTES}
            for text, passage in found.items():
                assert np.array_equal(passage.vector, on_grid(TextEmbedder().embed([text]))[0])


def test_a_corpus_that_is_deleted_leaves_no_text(tmp_path: Path) -> None:
    made(tmp_path).close()
    Corpus.delete("mail", tmp_path)
    assert not (tmp_path / "mail.vectors").exists()
    for word in ("amber", "cedar"):
        assert traces(tmp_path, f"the unit of {word}") == []
    assert seen(made(tmp_path)).keys() == {note.text for note in NOTES}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-70])


@pytest.mark.parametrize("damage", [cut, blank, Path.unlink])
def test_damaged_vectors_are_mended(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    corpus = made(tmp_path)
    expected = seen(corpus)
    corpus.close()
    damage(tmp_path / "mail.vectors")
    for _ in range(2):
        found = seen(opened(tmp_path))
        assert list(found) == list(expected)
        for text, passage in found.items():
            assert np.array_equal(passage.vector, expected[text].vector)


class Another(TextEmbedder):
    """Another model under the same name."""

    def embed(self, texts: Any, *, query: bool = False) -> Any:
        return -super().embed(texts, query=query)


def test_vectors_that_cannot_be_mended_are_an_error(tmp_path: Path) -> None:
    made(tmp_path).close()
    (tmp_path / "mail.vectors").unlink()
    corpus = Corpus.open("mail", tmp_path, embedder=Another())
    with pytest.raises(CorpusError, match="this embedder makes others") as caught:
        corpus.scan(np.ones(16))
    assert "note" not in str(caught.value)


@pytest.mark.heavy
def test_every_bit_of_the_vectors_is_checked(tmp_path: Path) -> None:
    """It is mended, so that what is found is what was there."""
    documents = NOTES[:2]
    corpus = filled(tmp_path, documents)
    expected = {text: passage.vector.tolist() for text, passage in seen(corpus).items()}
    corpus.close()
    path = tmp_path / "mail.vectors"
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        held = bytearray(whole)
        held[bit // 8] ^= 1 << bit % 8
        path.write_bytes(held)
        storage = Storage(tmp_path / "mail.corpus")
        rows = storage.state(TextEmbedder()).rows
        try:
            rows.require_sound(0, len(rows.unit))
        except Exception:
            storage.mend(TextEmbedder())
            rows = storage.state(TextEmbedder()).rows
        storage.close()
        assert sorted(row[:16].tolist() for row in rows.vectors) == sorted(expected.values())


@pytest.mark.heavy
@pytest.mark.parametrize("bit", range(8))
def test_no_bit_of_the_tables_says_anything_else(tmp_path: Path, bit: int) -> None:
    """A question finds what was there, or an error says that the file is damaged."""
    corpus = filled(tmp_path, NOTES[:4])
    expected = {t: (p.unit, p.metadata, p.vector.tolist()) for t, p in seen(corpus).items()}
    corpus._storage.flush()
    corpus.close()
    path = tmp_path / "mail.corpus"
    whole = path.read_bytes()
    outcomes = set()
    for place in range(0, len(whole), 7):
        if not whole[place] and not any(whole[place - 8 : place + 8]):
            continue  # space that nothing uses
        for beside in tmp_path.glob("mail.corpus-*"):
            beside.unlink()
        held = bytearray(whole)
        held[place] ^= 1 << bit
        path.write_bytes(held)
        try:
            with closing(opened(tmp_path)) as again:
                found = {t: (p.unit, p.metadata, p.vector.tolist()) for t, p in seen(again).items()}
        except CorpusError:
            outcomes.add("refused")
            continue
        assert found == expected, place
        outcomes.add("same")
    assert outcomes == {"refused", "same"}


def test_damage_that_no_checksum_showed_would_be_found_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: checksums that always agree."""
    corpus = made(tmp_path)
    expected = seen(corpus)
    corpus.close()
    path = tmp_path / "mail.vectors"
    held = bytearray(path.read_bytes())
    held[2] ^= 0x40
    path.write_bytes(held)
    monkeypatch.setattr(VectorRows, "require_sound", lambda *_: None)
    found = seen(opened(tmp_path))
    assert any(not np.array_equal(found[text].vector, expected[text].vector) for text in found)


@contextmanager
def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End what is done at a step: before vectors are opened or made durable, or a commit."""
    steps = iter(range(step + 1))

    def guarded(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if next(steps, None) is None:
                raise Killed
            return original(*args, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(vector_rows.VectorFile, "_open", guarded(vector_rows.VectorFile._open))
        patch.setattr(vector_rows.os, "fsync", guarded(os.fsync))
        patch.setattr(Storage, "write", guarded(Storage.write))
        patch.setattr(Storage, "_apply", guarded(Storage._apply))
        patch.setattr(Storage, "_settle", guarded(Storage._settle))
        yield


def work(corpus: Corpus, what: str) -> None:
    if what == "add":
        corpus.add([*NOTES, Document("a late note", "the unit of cedar"), "alone"])
    elif what == "forget":
        corpus.delete_unit("the unit of cedar")
    else:
        corpus.add(NOTES)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("what", ["make", "add", "forget", "fill"])
def test_a_kill_at_any_step_leaves_what_was_committed(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(60):
        folder = tmp_path / str(step)
        if what == "make":
            corpus = Corpus.create("mail", folder, embedder=TextEmbedder())
        else:
            corpus = made(folder)
        if what == "fill":
            corpus.delete_unit("the unit of cedar")
        ended = False
        with killed_at(step, monkeypatch):
            try:
                work(corpus, what)
            except Killed:
                ended = True
        corpus.close()
        again = opened(folder)
        expected = {record.text: record.unit for record in again.records()}
        assert {t: passage.unit for t, passage in seen(again).items()} == expected
        work(again, what)
        assert seen(again).keys() == {record.text for record in again.records()}
        if what == "forget":
            assert traces(folder, "the unit of cedar") == []
        for text, passage in seen(again).items():
            assert np.array_equal(passage.vector, on_grid(TextEmbedder().embed([text]))[0])
        if not ended:
            break
    else:
        pytest.fail("there were more steps")
    assert step > 2


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = made(tmp_path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(vector_rows.os, "fsync", full)
        with pytest.raises(CorpusError, match=r"No space left on device\); see that the disk"):
            corpus.add(["a late note"])
        assert seen(corpus).keys() == {note.text for note in NOTES}
    corpus.add(["a late note"])
    assert len(seen(corpus)) == len(NOTES) + 1


def test_half_of_a_document_is_never_stored(tmp_path: Path) -> None:
    long = " ".join(f"Sentence number {number} is here." for number in range(100))

    class Ends(TextEmbedder):
        def embed(self, texts: Any, *, query: bool = False) -> Any:
            if any("number 99" in text for text in texts):
                raise KeyboardInterrupt
            return super().embed(texts, query=query)

    corpus = Corpus.create("mail", tmp_path, embedder=Ends(), chunk_size=40, chunk_overlap=0)
    with pytest.raises(KeyboardInterrupt):
        corpus.add([Document("whole", "one"), Document(long, "two"), Document("more", "two")])
    assert [record.text for record in corpus.records()] == ["whole"]


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
    for where in (None, {"owner": "ann"}, {"owner": "nobody"}, {"owner": {"$ne": "ann"}}):
        records = [
            record
            for record in corpus.records()
            if where is None
            or (record.metadata["owner"] == where["owner"])
            or (where["owner"] == {"$ne": "ann"} and record.metadata["owner"] != "ann")
        ]
        vectors = corpus.embedder.embed([record.text for record in records])
        whole = Snapshot(records, vectors)
        question = corpus.embedder.embed(["a b c"], query=True)[0]
        scores = whole.scores(question)
        for threshold in sorted({*scores.tolist(), 0.3}):
            for limit in (None, 1, 2):
                retriever = ThresholdRetriever(
                    corpus, float(np.clip(threshold, -1, 1)), where=where, passages_per_unit=limit
                )
                expected = whole.scan(question, retriever.bar.threshold)
                passages = expected.passages(range(len(expected.units)), limit)
                assert retriever.retrieve("a b c") == [passage.document for passage in passages]
        for top_k in (1, 3, 12, 50):
            near = whole.scan(question)
            best = np.sort(np.argsort(-near.scores, kind="stable")[:top_k])
            assert TopKRetriever(corpus, top_k, where=where).retrieve("a b c") == [
                passage.document for passage in near.passages(best.tolist())
            ]


def test_rows_that_are_taken_again_while_they_are_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, other = made(tmp_path), opened(tmp_path)
    assert len(corpus.scan(np.ones(16)).units) == 5
    scan, writes = VectorRows.near, iter([None])

    def near(self: VectorRows, *rest: Any) -> Any:
        for _ in writes:
            other.delete_unit("the unit of cedar")
            other.add([Document("a new note", "the unit of fir")])
        return scan(self, *rest)

    monkeypatch.setattr(VectorRows, "near", near)
    found = corpus.scan(np.ones(16))
    assert "the unit of cedar" not in found.units
    assert "the unit of fir" in found.units
    assert sorted(found.scores.tolist()) == sorted(other.scan(np.ones(16)).scores.tolist())


@pytest.mark.parametrize("filter", [None, {"number": "1"}])
def test_where_somebody_writes_all_the_time_a_question_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filter: dict[str, str] | None
) -> None:
    corpus, other = made(tmp_path), opened(tmp_path)
    scan, turns = VectorRows.near, iter(range(5))

    def near(self: VectorRows, *rest: Any) -> Any:
        for turn in turns:
            other.add([Document(f"note of turn {turn}", "the unit of fir", {"number": "1"})])
            break
        return scan(self, *rest)

    monkeypatch.setattr(VectorRows, "near", near)
    found = corpus.scan(np.ones(16), where=filter)
    assert next(turns, None) is None
    assert len(found.units) == 6


def test_a_damaged_corpus_hides_no_other(tmp_path: Path) -> None:
    made(tmp_path).close()
    (tmp_path / "other.corpus").write_bytes(b"nothing" * 100)
    assert Corpus.names(tmp_path) == ["mail", "other"]
    assert seen(opened(tmp_path))
    with pytest.raises(CorpusError, match="not a corpus"):
        Corpus.open("other", tmp_path, embedder=TextEmbedder())


def test_documents_are_added_beside_damaged_vectors(tmp_path: Path) -> None:
    corpus = made(tmp_path)
    path = tmp_path / "mail.vectors"
    path.write_bytes(bytes(path.stat().st_size))
    corpus.add(["a late note"])
    assert seen(opened(tmp_path)).keys() == {*(note.text for note in NOTES), "a late note"}


def test_tables_have_no_text_of_keys(tmp_path: Path) -> None:
    corpus = made(tmp_path)
    corpus.delete_unit("the unit of cedar")
    corpus.close()
    with closing(sqlite3.connect(tmp_path / "mail.corpus")) as tables:
        held = tables.execute("SELECT hash FROM unit_key").fetchall()
    assert held
    assert all(len(key) == 64 for (key,) in held)
